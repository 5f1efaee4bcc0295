"""The CI gate: fail when a threshold on any metric is exceeded."""

from __future__ import annotations

from typing import Annotated

import typer

from ..model.refusal import UsageError
from ..model.report import Report
from . import settings
from .gating import conditions
from .options import FailIf, MaxDataWait
from .output import say
from .reading import report_of
from .settings import Settings


def main(
    profiles: Annotated[
        list[str] | None, typer.Argument(metavar="PROFILE", help="Profiles.", show_default="profile.json")
    ] = None,
    max_data_wait: MaxDataWait = None,
    fail_if: FailIf = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="PROFILE", help="The profile that --max-regression compares with.")
    ] = None,
    max_regression: Annotated[
        str | None,
        typer.Option(metavar="FRACTION", help="Fail when steps got slower by more, beyond the noise."),
    ] = None,
) -> int:
    """The CI gate: fail when a threshold on any metric is exceeded."""
    from ..analyse import gate
    from ..render.outcome import outcome_lines

    defaults = settings.load()
    limit, base = _baseline(baseline, max_regression, defaults)
    if not (base or max_data_wait or fail_if or defaults.fail_if or defaults.max_data_wait is not None):
        raise UsageError(
            "nothing to check: give --max-data-wait, --fail-if, or --baseline with --max-regression"
        )
    names = profiles or [defaults.output]
    reports = [report_of(name) for name in names]
    known = gate.known_metrics(reports)
    failing = conditions(max_data_wait or [], fail_if or [], defaults, known)
    outcomes = []
    for name, report in zip(names, reports, strict=True):
        regression = gate.compare_step_time(base, report, limit) if base else None
        outcomes.append(gate.judge(report, failing, regression))
        prefix = f"{name}: " if len(names) > 1 else ""
        say("".join(f"{prefix}{line}\n" for line in outcome_lines(outcomes[-1])))
    return gate.worst(outcome.status for outcome in outcomes)


def _baseline(
    baseline: str | None, max_regression: str | None, defaults: Settings
) -> tuple[float, Report | None]:
    """The limit and the report to compare with; both or none."""
    from ..analyse import gate

    path, limit, origin = baseline or defaults.baseline, max_regression, "--max-regression"
    if not path:
        if limit is not None:
            raise UsageError("--max-regression needs --baseline PROFILE to compare with")
        return 0.0, None
    if limit is None and defaults.max_regression is not None:
        limit, origin = repr(defaults.max_regression), settings.origin(defaults, "max-regression")
    if limit is None:
        raise UsageError("--baseline needs --max-regression FRACTION, for example 0.05 for 5 %")
    return gate.parse_fraction(limit, origin), report_of(path)
