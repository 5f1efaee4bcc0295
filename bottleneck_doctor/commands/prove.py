"""Try the remedies on your own training, and measure what each brings.

\b
bdoc prove [OPTIONS] SCRIPT [ARGS]...      an unmodified training script
bdoc prove [OPTIONS] -m MODULE [ARGS]...   a module, as for python -m
bdoc prove [OPTIONS] -- COMMAND [ARGS]...  torchrun, accelerate launch, a shell script

The training is watched once, then run again a few hundred steps at a time: as it is, and with the best
remedies applied from outside. Whatever the script does besides training, it does each time.
The first run's profile is left as by `bdoc run`.
Exit status: 0 done, 1 an expectation fails, 2 usage error, 3 cannot say; the script's own where it fails.
"""

from __future__ import annotations

from typing import Any

import typer

from .cli import LAUNCHED, SPECIAL, signature
from .options import QUIET, read_settings
from .run_options import PROVE, read, refuse_stdin

__all__ = ["SPECIAL", "main"]


def main(context: typer.Context, target: list[str] | None, **typed: Any) -> int:
    """Try the remedies on your own training, and measure what each brings."""
    launched, settings = bool(context.meta.get(LAUNCHED)), read_settings()
    options = read(PROVE, target or [], launched, typed, settings, "prove")
    refuse_stdin(options.form)
    if not options[QUIET]:
        settings.tell()
    from .proving import prove_command

    return prove_command(options)


main.__signature__ = signature(PROVE)  # type: ignore[attr-defined]
