"""Run a training script under instrumentation and say what limits it.

\b
bdoc run [OPTIONS] SCRIPT [ARGS]...        an unmodified training script
bdoc run [OPTIONS] -m MODULE [ARGS]...     a module, as for python -m
bdoc run [OPTIONS] -- COMMAND [ARGS]...    torchrun, accelerate launch, a shell script

Options of bdoc stand before the script; everything after it is the script's, untouched.
"""

# Declares and checks the options; ``commands/run.py`` acts on them.

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ..model.outcome import Condition
from ..model.refusal import UsageError
from ..model.trial import Order
from . import settings
from .gating import conditions
from .options import (
    Calibrate,
    CProfile,
    DataFn,
    FailIf,
    Format,
    KeepTrace,
    MaxDataWait,
    Place,
    Python,
    TrialOrder,
    UntilSteady,
)
from .reading import printed_format
from .settings import Settings

LAUNCHED = "bottleneck_doctor.launched"


@dataclass(frozen=True)
class TrialFile:
    """A trial's order, and the file that holds it, for the agent."""

    path: str
    order: Order


@dataclass(frozen=True)
class RunOptions:
    """A checked command line: one of ``script``, ``module``, ``launcher``, and the ``args`` behind it."""

    script: str | None
    module: str | None
    launcher: list[str] | None
    args: list[str]
    output: str
    conditions: list[Condition]
    max_steps: int | None
    max_seconds: float | None
    format: str
    quiet: bool
    profiler: bool
    py_spy: bool
    cprofile: bool
    python: str | None
    data_fn: list[str]
    calibrate: bool = False
    keep_trace: bool = False
    trial: TrialFile | None = None
    place: str | None = None
    until_steady: bool = False


class RunCommand(TyperCommand):
    """Remembers whether the target stood behind ``--``, which the parser swallows."""

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
SPECIAL = {"cls": RunCommand, "context_settings": {"allow_interspersed_args": False}}


def main(
    context: typer.Context,
    target: Annotated[list[str] | None, typer.Argument(metavar="SCRIPT [ARGS]...", hidden=True)] = None,
    module: Annotated[
        bool, typer.Option("-m", help="SCRIPT is the name of a module, as for python -m.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="PATH", help="The profile.", show_default="profile.json"),
    ] = None,
    max_data_wait: MaxDataWait = None,
    fail_if: FailIf = None,
    max_steps: Annotated[
        int | None, typer.Option(metavar="N", help="End the training after N steps.")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(metavar="S", help="End the training after S seconds.")
    ] = None,
    format: Format = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress and no report.")] = False,
    no_profiler: Annotated[bool, typer.Option("--no-profiler", help="No torch.profiler window.")] = False,
    no_py_spy: Annotated[bool, typer.Option("--no-py-spy", help="No py-spy window.")] = False,
    cprofile: CProfile = False,
    keep_trace: KeepTrace = False,
    calibrate: Calibrate = False,
    python: Python = None,
    data_fn: DataFn = None,
    trial: TrialOrder = None,
    place: Place = None,
    until_steady: UntilSteady = False,
) -> int:
    """Run a training script under instrumentation and say what limits it."""
    defaults = settings.load() if place is None else Settings()  # `bdoc prove` has read them itself
    script, name, launcher, args = form(target or [], module, bool(context.meta.get(LAUNCHED)))
    options = RunOptions(
        script=script,
        module=name,
        launcher=launcher,
        args=args,
        output=output or defaults.output,
        conditions=conditions(max_data_wait or [], fail_if or [], defaults),
        max_steps=_steps(max_steps, defaults),
        max_seconds=_seconds(max_seconds, defaults),
        format=printed_format(format, defaults),
        quiet=quiet or defaults.quiet,
        profiler=not (no_profiler or defaults.no_profiler),
        py_spy=not (no_py_spy or defaults.no_py_spy),
        cprofile=cprofile or defaults.cprofile,
        calibrate=calibrate or defaults.calibrate,
        keep_trace=keep_trace,
        python=python or defaults.python,
        data_fn=[function(name) for name in data_fn or defaults.data_fn],
        trial=_trial(trial),
        place=place,
        until_steady=until_steady,
    )
    from .run import run_command

    return run_command(options)


def form(
    target: list[str], module: bool, launched: bool, command: str = "run"
) -> tuple[str | None, str | None, list[str] | None, list[str]]:
    """Script, module, launcher and arguments."""
    if not target:
        raise UsageError(
            f"nothing to run: give a script, '-m MODULE' or '-- COMMAND', see `bdoc {command} --help`"
        )
    if module:
        return None, target[0], None, target[1:]
    if launched:
        return None, None, target, []
    return target[0], None, None, target[1:]


def _trial(path: str | None) -> TrialFile | None:
    if path is None:
        return None
    from ..model.codec import read_order

    return TrialFile(os.path.abspath(path), read_order(path))


def _steps(given: int | None, defaults: Settings) -> int | None:
    origin = "--max-steps" if given is not None else settings.origin(defaults, "max-steps")
    value = defaults.max_steps if given is None else given
    if value is not None and value < 1:
        raise UsageError(f"{origin} {value}: expected a whole number of at least 1")
    return value


def _seconds(given: float | None, defaults: Settings) -> float | None:
    origin = "--max-seconds" if given is not None else settings.origin(defaults, "max-seconds")
    value = defaults.max_seconds if given is None else given
    if value is not None and not (math.isfinite(value) and value > 0):
        raise UsageError(f"{origin} {value}: expected a number of seconds above 0")
    return value


def function(name: str) -> str:
    """A function of the user's that fetches batches, as MODULE:FUNCTION."""
    module, colon, function = name.partition(":")
    parts = [*module.split("."), *function.split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        raise UsageError(f"--data-fn {name!r} is not MODULE:FUNCTION, for example 'cats.data:next_batch'")
    return name
