"""Run a training script under instrumentation and say what limits it.

\b
bdoc run [OPTIONS] SCRIPT [ARGS]...        an unmodified training script
bdoc run [OPTIONS] -m MODULE [ARGS]...     a module, as for python -m
bdoc run [OPTIONS] -- COMMAND [ARGS]...    torchrun, accelerate launch, a shell script

Options of bdoc stand before the script; everything after it is the script's, untouched.
"""

# Declares the options for typer; ``commands/run_options.py`` checks them.

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from .options import (
    Calibrate,
    CProfile,
    DataFn,
    FailIf,
    Format,
    KeepTrace,
    MaxDataWait,
    MaxSteps,
    Module,
    NoCalibrate,
    NoPaths,
    Place,
    ProveFor,
    Python,
    TrialOrder,
    UntilSteady,
)
from .run_options import checked

LAUNCHED = "bottleneck_doctor.launched"


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
    module: Module = False,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="PATH", help="The profile.", show_default="profile.json"),
    ] = None,
    max_data_wait: MaxDataWait = None,
    fail_if: FailIf = None,
    max_steps: MaxSteps = None,
    max_seconds: Annotated[
        float | None, typer.Option(metavar="S", help="End the training after S seconds.")
    ] = None,
    format: Format = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress and no report.")] = False,
    no_profiler: Annotated[bool, typer.Option("--no-profiler", help="No torch.profiler window.")] = False,
    no_py_spy: Annotated[bool, typer.Option("--no-py-spy", help="No py-spy window.")] = False,
    cprofile: CProfile = False,
    keep_trace: KeepTrace = False,
    no_paths: NoPaths = False,
    calibrate: Calibrate = False,
    no_calibrate: NoCalibrate = False,
    prove: ProveFor = None,
    python: Python = None,
    data_fn: DataFn = None,
    trial: TrialOrder = None,
    place: Place = None,
    until_steady: UntilSteady = False,
) -> int:
    """Run a training script under instrumentation and say what limits it."""
    options = checked(
        target or [],
        bool(context.meta.get(LAUNCHED)),
        module=module,
        output=output,
        max_data_wait=max_data_wait,
        fail_if=fail_if,
        max_steps=max_steps,
        max_seconds=max_seconds,
        format=format,
        quiet=quiet,
        no_profiler=no_profiler,
        no_py_spy=no_py_spy,
        cprofile=cprofile,
        keep_trace=keep_trace,
        no_paths=no_paths,
        calibrate=calibrate,
        no_calibrate=no_calibrate,
        prove=prove,
        python=python,
        data_fn=data_fn,
        trial=trial,
        place=place,
        until_steady=until_steady,
    )
    from .run import run_command

    return run_command(options)
