"""The options that several commands share, declared once: they read the same in every help."""

from __future__ import annotations

from typing import Annotated

import typer

MaxDataWait = Annotated[
    list[str] | None, typer.Option(metavar="FRACTION", help="Fail when data_wait_fraction is above this.")
]
FailIf = Annotated[
    list[str] | None, typer.Option(metavar="'METRIC OP VALUE'", help="Fail when this is so. Repeatable.")
]
Format = Annotated[
    str | None, typer.Option(metavar="FORMAT", help="terminal (the default), markdown or json.")
]
Module = Annotated[bool, typer.Option("-m", help="SCRIPT is the name of a module, as for python -m.")]
Python = Annotated[str | None, typer.Option(metavar="PATH", help="The Python that runs the training.")]
DataFn = Annotated[
    list[str] | None,
    typer.Option(metavar="MODULE:FUNCTION", help="A function that fetches batches. Repeatable."),
]
CProfile = Annotated[bool, typer.Option("--cprofile", help="Also run cProfile, which slows Python.")]
KeepTrace = Annotated[
    bool, typer.Option("--keep-trace", help="Keep the profiler's trace of an accelerator's steps.")
]
MaxSteps = Annotated[int | None, typer.Option(metavar="N", help="End the training after N steps.")]
NoPaths = Annotated[
    bool, typer.Option("--no-paths", help="Call folders and data files in the profile by hashes.")
]
Calibrate = Annotated[
    bool, typer.Option("--calibrate", help="Afterwards, time all remedies that can be: 2 to 12 s.")
]
NoCalibrate = Annotated[
    bool, typer.Option("--no-calibrate", help="Time nothing afterwards, not even for two seconds.")
]
ProveFor = Annotated[
    str | None, typer.Option("--prove", metavar="TIME", help="Then try the remedies, for 2m, say.")
]
TrialOrder = Annotated[
    str | None, typer.Option("--trial", hidden=True, help="What `bdoc prove` wants tried, as JSON.")
]
Place = Annotated[
    str | None, typer.Option("--place", hidden=True, help="Where `bdoc prove` wants the run folder.")
]
UntilSteady = Annotated[
    bool, typer.Option("--until-steady", hidden=True, help="End the training once its step time is known.")
]
