"""What the replay is told of a run: which costs its steps have, and on how many cores."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.predict import step_after
from bottleneck_doctor.model.diagnosis import Change
from tests.analyse.runs import run_of

MS = 1e-3


@pytest.mark.parametrize("crowded", [1.0, 3.0])
def test_a_freeze_is_worth_the_collectors_cpu_whoever_else_wants_the_cores(crowded: float) -> None:
    run = run_of(cpu=1 * MS, compute=4 * MS, idle=3 * MS, steps=300)
    table = run.loops[0].table
    for place, wall in enumerate(table.wall_s):
        collect, waited = 4 * MS * crowded, 8 * MS * (crowded - 1)
        table.collect_s[place] = collect
        table.cpu_s[place] = 8 * MS
        table.runq_s[place] = waited
        table.wall_s[place] = wall + 4 * MS + waited
    scenario = diagnose(run).scenario
    assert scenario is not None
    assert fmean(cost.collect for cost in scenario.costs) == pytest.approx(4 * MS, rel=0.02)
    assert fmean(cost.compute for cost in scenario.costs) == pytest.approx(4 * MS, rel=0.05)
    assert step_after(scenario, Change(collect=0.0)) == pytest.approx(8 * MS, rel=0.1)


def _four_workers_s(physical: int | None) -> float:
    """The step that four workers would give on four hardware threads, where computing batches is all."""
    run = run_of(cpu=20 * MS, compute=0.1 * MS, cores=4.0)
    run = replace(run, machine=replace(run.machine, physical_cores=physical))
    scenario = diagnose(run).scenario
    assert scenario is not None
    return step_after(scenario, Change(workers=4))


def test_hardware_threads_of_one_core_compute_a_quarter_more_than_one() -> None:
    cores = _four_workers_s(None)
    assert _four_workers_s(4) == cores
    assert _four_workers_s(2) / cores == pytest.approx(4 / 2.5, rel=0.1)
