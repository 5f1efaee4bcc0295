"""The CI gate: fail when a threshold on any metric is exceeded, or the job got slower than its baseline.

Thresholds are held against each profile on its own. With --baseline, several profiles are repeats of one
job: the more on each side, the smaller the change that shows through the noise between runs.
Profiles may be folders of profiles. Exit status: 0 holds, 1 fails, 2 usage error, 3 cannot say.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from ..model.errors import UsageError
from . import pyproject_settings
from .cli import declared
from .gate import GateFiles, allowed_differences, apart, asked, hand_over, side
from .options import BASELINE, FAIL_IF, MAX_DATA_WAIT, MAX_REGRESSION, OUTPUT, failing, thresholds
from .output import say


def main(
    profiles: Annotated[
        list[str] | None, typer.Argument(metavar="PROFILE", help="Profiles.", show_default="profile.json")
    ] = None,
    max_data_wait: Annotated[list[str] | None, declared(MAX_DATA_WAIT)] = None,
    fail_if: Annotated[list[str] | None, declared(FAIL_IF)] = None,
    baseline: Annotated[list[str] | None, declared(BASELINE)] = None,
    max_regression: Annotated[str | None, declared(MAX_REGRESSION)] = None,
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

    settings = pyproject_settings.load()
    bases, limit = settings.of(BASELINE, baseline), settings.of(MAX_REGRESSION, max_regression)
    if max_regression is not None and not bases:
        raise UsageError("--max-regression needs --baseline PROFILE to compare with")
    allowed = allowed_differences(allow_different or [], bool(bases))
    if not (bases or max_data_wait or fail_if or {FAIL_IF.name, MAX_DATA_WAIT.name} & set(settings.said)):
        raise UsageError("nothing to check: give --max-data-wait, --fail-if or --baseline")
    runs = side(profiles or [settings.of(OUTPUT)], "PROFILE")
    before = side(bases, "--baseline")
    apart(before, runs)
    files = asked(GateFiles(junit, summary, annotations), [run.name for run in (*runs, *before)])
    known = gate.known_metrics(run.report for run in runs)
    wanted = replace(FAIL_IF, read=partial(failing, known=known))
    conditions = thresholds(settings.of(MAX_DATA_WAIT, max_data_wait), settings.of(wanted, fail_if))
    found = gate.check(runs, conditions, before, gate.DEFAULT_LIMIT if limit is None else limit, allowed)
    say("".join(f"{line}\n" for line in gate_lines(found)))
    hand_over(files, found)
    return found.status
