"""Cases of the findings in startup.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.diagnosis import BatchCost, Diagnosis, StepCost
from bottleneck_doctor.model.run import Startup
from tests.findings.builders import Case, abstains, fires, silent, steady_run


# startup-dominated
def _case(start: Startup | None, stopped_by: str | None = None) -> Diagnosis:
    """A run of one minute."""
    base = steady_run(BatchCost(1e-4), StepCost(0.01))
    run = replace(base.profile.run, duration_s=60.0, stopped_by=stopped_by)
    return replace(base, profile=replace(base.profile, run=run, startups=[start] if start else []))


SCAN = Startup(1, 0.1, 0.2, 3.0, 30.0, 0.1, 1.0)


def startup_dominated() -> tuple[Case, ...]:
    return (
        fires("half of the run looks for files", _case(SCAN)),
        fires("half of the run imports", _case(replace(SCAN, imports_s=28.0))),
        silent("torch alone is slow", _case(Startup(1, 0.1, 0.2, 30.0, 1.0, 0.1, 0.5))),
        silent("torch brings in the rest later", _case(replace(SCAN, torch_late_s=29.5))),
        silent("one second", _case(replace(SCAN, before_loader_s=1.0))),
        abstains("stopped by --max-steps", _case(SCAN, "--max-steps")),
    )
