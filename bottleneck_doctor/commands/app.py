"""Assembles ``bdoc`` from its commands, and turns what they refuse into one line and a status.

Only typer is imported up here: ``bdoc --help`` and ``bdoc run`` must start at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Annotated, Any

import typer

from .. import __version__
from . import check, compare, env, explain, prove, report, run_options, view, watch
from .output import complain, say

USAGE = 2
INTERRUPTED = 130
# Public in every typer, whichever click it brings: the base of what a wrong command line raises.
WRONG_LINE: Any = typer.BadParameter.__base__
COMMANDS: dict[str, ModuleType] = {
    "run": run_options,
    "prove": prove,
    "watch": watch,
    "report": report,
    "view": view,
    "check": check,
    "compare": compare,
    "explain": explain,
    "env": env,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``bdoc`` with these arguments; returns the exit status, never raises for what a user did."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = typer.main.get_command(assemble())
    try:
        return int(command.main(arguments, prog_name="bdoc", standalone_mode=False) or 0)
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except WRONG_LINE as problem:
        complain(_wrong(problem, arguments))
        return USAGE
    except Exception as problem:
        slug = getattr(problem, "slug", None)
        if slug is None:
            raise
        complain(f"{problem} [{slug}]")
        return int(getattr(problem, "status", USAGE))


def assemble() -> typer.Typer:
    """The application: plain help, own errors, no completion machinery."""
    app = typer.Typer(
        help="Says what limits a PyTorch training, and what to change first.",
        epilog="`bdoc run train.py --lr 0.1` measures a training; `bdoc report` shows it again.",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_start)
    for name, module in COMMANDS.items():
        text = (module.__doc__ or "").strip()
        head = text.partition("\n")[0].rstrip(".")
        special: dict[str, Any] = getattr(module, "SPECIAL", {})
        app.command(name, help=text, short_help=head, **special)(module.main)
    return app


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


def _wrong(problem: Any, arguments: list[str]) -> str:
    """One line: what is wrong, and where to read on."""
    said = " ".join(problem.format_message().split()).rstrip(".")
    first = next((word for word in arguments if not word.startswith("-")), "")
    if first not in COMMANDS and first.endswith(".py"):
        return f"no command {first!r}: did you mean `bdoc run {first}`?"
    where = f"bdoc {first} --help" if first in COMMANDS else "bdoc --help"
    return f"{said[:1].lower()}{said[1:]}; see `{where}` [usage]"
