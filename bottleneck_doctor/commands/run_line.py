"""Run a training script under instrumentation and say what limits it.

\b
bdoc run [OPTIONS] SCRIPT [ARGS]...        an unmodified training script
bdoc run [OPTIONS] -m MODULE [ARGS]...     a module, as for python -m
bdoc run [OPTIONS] -- COMMAND [ARGS]...    torchrun, accelerate launch, a shell script

Options of bdoc stand before the script; everything after it is the script's, untouched.
"""

# Declares the options for typer; ``commands/run_options.py`` checks them.

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from .cli import signature
from .run_options import RUN, checked

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


def main(context: typer.Context, target: list[str] | None, **typed: Any) -> int:
    """Run a training script under instrumentation and say what limits it."""
    options = checked(target or [], bool(context.meta.get(LAUNCHED)), typed)
    from .run import run_command

    return run_command(options)


main.__signature__ = signature(RUN)  # type: ignore[attr-defined]
