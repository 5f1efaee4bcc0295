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

# Declares and checks the options; ``commands/proving.py`` acts on them.

from __future__ import annotations

from typing import Annotated

import typer

from ..model.errors import UsageError
from . import pyproject_settings
from .options import DataFn, Format, Module, Python
from .output import writable
from .prove_options import ProveOptions
from .reading import printed_format
from .run_line import LAUNCHED, SPECIAL
from .run_options import form, function, length, repeatable

__all__ = ["SPECIAL", "ProveOptions", "main"]

Budget = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="All that it may take, like 30s or 1h.",
        show_default="5m, at most 10 times the first run",
    ),
]
Given = Annotated[
    str | None,
    typer.Option("--profile", metavar="PROFILE", help="Start from this profile of the same training."),
]
Named = Annotated[
    list[str] | None,
    typer.Option("--remedy", metavar="ID", help="Try this remedy, and no other. Repeatable."),
]
Numerics = Annotated[
    bool, typer.Option("--allow-numerics", help="Also try what changes numerics or the order of samples.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be tried and what it would cost.")]
Expect = Annotated[
    list[str] | None,
    typer.Option(metavar="'ID OP NUMBER'", help="Fail unless the measured speedup is so. Repeatable."),
]
Output = Annotated[
    str | None, typer.Option("-o", "--output", metavar="FILE", help="Also write the proof, as JSON.")
]
WritePatch = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write the winner as a diff of your script.")
]
MaxSteps = Annotated[int | None, typer.Option(metavar="N", help="No run trains more than N steps.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress and no report.")]


def main(
    context: typer.Context,
    target: Annotated[list[str] | None, typer.Argument(metavar="SCRIPT [ARGS]...", hidden=True)] = None,
    module: Module = False,
    budget: Budget = None,
    profile: Given = None,
    remedy: Named = None,
    allow_numerics: Numerics = False,
    dry_run: DryRun = False,
    expect: Expect = None,
    format: Format = None,
    output: Output = None,
    write_patch: WritePatch = None,
    max_steps: MaxSteps = None,
    python: Python = None,
    data_fn: DataFn = None,
    quiet: Quiet = False,
) -> int:
    """Try the remedies on your own training, and measure what each brings."""
    defaults = pyproject_settings.load()
    script, name, launcher, args = form(target or [], module, bool(context.meta.get(LAUNCHED)), "prove")
    for path, option in ((output, "--output"), (write_patch, "--write-patch")):
        if path is not None:
            writable(path, option)
    options = ProveOptions(
        script=repeatable(script),
        module=name,
        launcher=launcher,
        args=args,
        budget_s=length("--budget", budget),
        profile=profile,
        remedies=remedy or [],
        expect=expect or [],
        allow_numerics=allow_numerics,
        dry_run=dry_run,
        format=printed_format(format, defaults),
        output=output,
        write_patch=write_patch,
        python=python or defaults.python,
        data_fn=[function(one) for one in data_fn or defaults.data_fn],
        max_steps=_steps(max_steps),
        quiet=quiet or defaults.quiet,
    )
    from .proving import prove_command

    return prove_command(options)


def _steps(given: int | None) -> int | None:
    if given is not None and given < 1:
        raise UsageError(f"--max-steps {given}: expected a whole number of at least 1")
    return given
