"""Assembles ``bdoc`` from its commands with typer, which reads the command line."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from .. import __version__
from .options import PROVE_GROUPS, RUN_GROUPS, Option
from .output import say
from .run_options import checked

# Public in every typer, whichever click it brings: the base of what a wrong command line raises.
WRONG_LINE: Any = typer.BadParameter.__base__
GIVEN_UP: Any = typer.Abort


LAUNCHED = "bottleneck_doctor.launched"  # in a context's meta: whether ``--`` stood before the target


# What typer writes about types, and around a default that is given as a text.
TYPE, DEFAULT = re.compile(r" <.*>$"), re.compile(r"\[default: \((.*)\)\]$")
GROUPS = {
    "Diagnose a training": ("run", "report", "view", "explain"),
    "Act on a report": ("prove", "compare", "check"),
    "Running jobs": ("watch", "attach"),
    "Many ranks, many runs": ("merge", "fleet"),
    "This machine": ("env",),
}


class GroupedCommand(TyperCommand):
    """A command whose help lists options under headings, each that of its ``rich_help_panel``."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments and options; those without a heading under that of their kind."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            if (record := one.get_help_record(ctx)) is not None:
                heading = getattr(one, "rich_help_panel", None) or f"{one.param_type_name.capitalize()}s"
                row = TYPE.sub("", record[0]), DEFAULT.sub(r"[default: \1]", record[1])
                sections.setdefault(heading, []).append(row)
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


class GroupedCommands(TyperGroup):
    """All commands, under headings."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """By ``GROUPS``."""
        for heading, names in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, self.commands[name].get_short_help_str()) for name in names])


class StartCommand(GroupedCommand):
    """A command that starts a training: remembers the ``--`` before the target, which the parser swallows."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """``--`` directly before the first word that is no option makes it a command."""
        before = list(args)
        left = super().parse_args(ctx, args)
        rest = len(ctx.params.get("target") or [])
        ctx.meta[LAUNCHED] = rest < len(before) and before[len(before) - rest - 1] == "--"
        return left

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The three forms stand in the help; one line cannot hold them."""
        return ["[OPTIONS]", "SCRIPT", "[ARGS]..."]


# Everything after the script is the script's, whatever it looks like.
SPECIAL: dict[str, Any] = {"cls": StartCommand, "context_settings": {"allow_interspersed_args": False}}
STARTING = {"run": RUN_GROUPS, "prove": PROVE_GROUPS}  # the commands that start a training


def obey(arguments: Sequence[str], commands: dict[str, str]) -> int:
    """Run the command that is asked for; of the others nothing is needed but for help and for hints."""
    first = arguments[0] if arguments else ""
    asked = {first: commands[first]} if first in commands else commands
    command = typer.main.get_command(assemble(asked.items()))
    return int(command.main(list(arguments), prog_name="bdoc", standalone_mode=False) or 0)


def assemble(commands: Iterable[tuple[str, str]]) -> typer.Typer:
    """The application: plain help, own errors, no completion machinery. ``commands``: name, module."""
    app = typer.Typer(
        cls=GroupedCommands,
        help="Says what limits a PyTorch training, and what to change first.",
        epilog="`bdoc run train.py --lr 0.1` measures a training; `bdoc report` shows it again.",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_start)
    for name, file in commands:
        main = getattr(importlib.import_module(f".{file}", __package__), f"{name}_command")
        text = inspect.getdoc(main) or ""
        head = text.partition("\n")[0].rstrip(".")
        if name in STARTING:
            app.command(name, help=text, short_help=head, **SPECIAL)(_starting(main, STARTING[name]))
        else:
            app.command(name, cls=GroupedCommand, help=text, short_help=head)(main)
    return app


def _starting(main: Callable[..., int], groups: Mapping[str, Iterable[Option[Any]]]) -> Callable[..., int]:
    """What typer calls for a command that starts a training, whose module needs no typer."""

    def start(context: typer.Context, target: list[str] | None, **typed: Any) -> int:
        return main(target or [], bool(context.meta.get(LAUNCHED)), typed)

    keyword = inspect.Parameter.KEYWORD_ONLY
    target = Annotated[list[str] | None, typer.Argument(metavar="SCRIPT [ARGS]...", hidden=True)]
    read = [
        inspect.Parameter("context", keyword, annotation=typer.Context),
        inspect.Parameter("target", keyword, annotation=target, default=None),
    ]
    for group, one in [(group, one) for group, options in groups.items() for one in options]:
        kind: Any = {bool: bool, list: list[str] | None}.get(one.kind, one.kind | None)
        typed_as = Annotated[kind, declared(one, group)]
        absent = False if one.kind is bool else None
        read.append(inspect.Parameter(one.key, keyword, annotation=typed_as, default=absent))
    start.__signature__ = inspect.Signature(read)  # type: ignore[attr-defined]
    return start


def declared(option: Option[Any], heading: str | None = None) -> Any:
    """The typer option for an option."""
    return typer.Option(
        *option.words,
        metavar=option.metavar,
        help=f"{option.help} [env: {option.variable}]" if option.variable else option.help,
        hidden=option.hidden,
        show_default=option.shown_default or True,
        rich_help_panel=heading,
    )


def run_command(target: list[str], launched: bool, typed: dict[str, Any]) -> int:
    """Run a training script under instrumentation and say what limits it.

    \b
    bdoc run [OPTIONS] SCRIPT [ARGS]...        an unmodified training script
    bdoc run [OPTIONS] -m MODULE [ARGS]...     a module, as for python -m
    bdoc run [OPTIONS] -- COMMAND [ARGS]...    torchrun, accelerate launch, a shell script

    Options of bdoc stand before the script; everything after it is the script's, untouched.
    """
    options = checked(target, launched, typed)
    from .run import run_training

    return run_training(options)


def _start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False,
) -> int:
    if version:
        say(f"bdoc {__version__}\n")
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        say(context.get_help() + "\n")
    return 0
