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

from .cli import LAUNCHED, SPECIAL, signature
from .run_options import RUN, checked

__all__ = ["SPECIAL", "main"]


def main(context: typer.Context, target: list[str] | None, **typed: Any) -> int:
    """Run a training script under instrumentation and say what limits it."""
    options = checked(target or [], bool(context.meta.get(LAUNCHED)), typed)
    from .run import run_command

    return run_command(options)


main.__signature__ = signature(RUN)  # type: ignore[attr-defined]
