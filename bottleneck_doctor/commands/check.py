"""The CI gate: fail when a threshold on any metric is exceeded, or the job got slower than its baseline.

Thresholds are held against each profile on its own. With --baseline, several profiles are repeats of one
job: the more on each side, the smaller the change that shows through the noise between runs.
Profiles may be folders of profiles. Exit status: 0 holds, 1 fails, 2 usage error, 3 cannot say.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ..model.errors import UsageError
from . import pyproject_settings
from .gate import GateFiles, allowed_differences, apart, asked, conditions, hand_over, regression_limit, side
from .options import FailIf, MaxDataWait
from .output import say


def main(
    profiles: Annotated[
        list[str] | None, typer.Argument(metavar="PROFILE", help="Profiles.", show_default="profile.json")
    ] = None,
    max_data_wait: MaxDataWait = None,
    fail_if: FailIf = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(metavar="PROFILE", help="A profile from before, to compare with. Repeatable."),
    ] = None,
    max_regression: Annotated[
        str | None,
        typer.Option(
            metavar="FRACTION", help="Fail when steps got slower by more, beyond the noise (default 0.03)."
        ),
    ] = None,
    allow_different: Annotated[
        list[str] | None,
        typer.Option(metavar="WHAT", help="Compare although this differs, e.g. torch. Repeatable."),
    ] = None,
    junit: Annotated[str | None, typer.Option(metavar="FILE", help="Write the outcome as JUnit XML.")] = None,
    annotations: Annotated[
        str | None, typer.Option(metavar="github", help="Mark your lines in a pull request.")
    ] = None,
    summary: Annotated[
        str | None, typer.Option(metavar="FILE", help="Append the outcome as markdown.")
    ] = None,
) -> int:
    """The CI gate: fail when a threshold on any metric is exceeded."""
    from ..analyse import gate
    from ..render.gate import gate_lines

    defaults = pyproject_settings.load()
    bases = defaults.baseline if baseline is None else baseline
    limit = regression_limit(max_regression, bool(bases), defaults)
    allowed = allowed_differences(allow_different or [], bool(bases))
    if not (bases or max_data_wait or fail_if or defaults.fail_if or defaults.max_data_wait is not None):
        raise UsageError("nothing to check: give --max-data-wait, --fail-if or --baseline")
    runs = side(profiles or [defaults.output], "PROFILE")
    before = side(bases, "--baseline")
    apart(before, runs)
    files = asked(GateFiles(junit, summary, annotations), [run.name for run in (*runs, *before)])
    known = gate.known_metrics(run.report for run in runs)
    failing = conditions(max_data_wait or [], fail_if or [], defaults, known)
    found = gate.check(runs, failing, before, limit, allowed)
    say("".join(f"{line}\n" for line in gate_lines(found)))
    hand_over(files, found)
    return found.status
