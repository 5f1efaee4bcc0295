"""What runs will take: seconds to the first batch, to the last, and the limits that follow."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ..model.diagnosis import Diagnosis
from ..model.loops import Outside, StepTable
from ..model.proof import Arm, ComparedSteps, Missed, Plan
from .limits import Limits, limits_after
from .rounds import ENOUGH, MOST

BUDGET_S = 300.0
WINDOWS = 10.0  # times the first run, all runs together may take at most


def budget_of(asked_s: float | None, window_s: float) -> float:
    """Seconds that all runs together may take: what was asked for, else five minutes or ten first runs."""
    return asked_s if asked_s is not None else min(BUDGET_S, WINDOWS * window_s)


def plan_of(
    diagnosis: Diagnosis, arms: Sequence[Arm], missed: Sequence[Missed], span: ComparedSteps, budget_s: float
) -> Plan:
    """The plan with its cost: from two rounds, which settle large differences, to as many as there may be."""
    run_s, others = run_seconds(diagnosis, span), len(arms) - 1
    least, most = ((times * others + times + 1) * run_s if others else 0.0 for times in (ENOUGH, MOST))
    return Plan(
        list(arms), list(missed), span, diagnosis.step_s, run_s, min(least, budget_s), min(most, budget_s)
    )


def run_seconds(diagnosis: Diagnosis, span: ComparedSteps) -> float:
    """How long a run of so many steps takes, by the run that was watched."""
    table, run_s = _table(diagnosis), diagnosis.profile.run.duration_s
    if table is None or not table.t:
        return run_s
    begin_s = first_batch_s(diagnosis)
    pace_s = (table.t[-1] - begin_s) / max(1, sum(table.steps))
    return begin_s + pace_s * span.end + max(0.0, run_s - table.t[-1])


def limits_of(diagnosis: Diagnosis, span: ComparedSteps, slowest_s: float = 0.0) -> Limits:
    """The limits of each trial; ``slowest_s`` is the longest run of the baseline since: where a machine has
    become busy, all that may take time may take more."""
    table = _table(diagnosis)
    times = table.t if table is not None else []
    longest_s = max((after - before for before, after in pairwise(times)), default=0.0)
    run_s = run_seconds(diagnosis, span)
    slower = max(1.0, slowest_s / run_s) if run_s > 0 else 1.0
    times_s = (run_s, diagnosis.step_s, first_batch_s(diagnosis), longest_s)
    return limits_after(span.end, *(slower * time_s for time_s in times_s))


def first_batch_s(diagnosis: Diagnosis) -> float:
    """Seconds from the start to the first batch."""
    table = _table(diagnosis)
    return max(0.0, table.t[0] - table.wall_s[0]) if table is not None and table.t else 0.0


def _table(diagnosis: Diagnosis) -> StepTable | Outside | None:
    return diagnosis.loop.table if diagnosis.loop is not None else diagnosis.outside
