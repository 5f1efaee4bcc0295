"""The replay agrees with closed forms and measurements; what a prediction adds to it."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.predict import best_setting, step_after
from bottleneck_doctor.analyse.replay import LITTLE, _Pipeline, apply, step_seconds
from bottleneck_doctor.model.diagnosis import BatchCost, Change, CostShares, EpochStart, Scenario, StepCost
from tests.analyse.runs import run_of

MS = 1e-3


def scene(cpu=0.0, wait=0.0, idle=0.0, compute=0.0, workers=0, cores=2.0, **more) -> Scenario:
    return Scenario(
        (BatchCost(cpu, wait=wait),), (StepCost(compute, idle),), workers=workers, cores=cores, **more
    )


@pytest.mark.parametrize(
    ("cpu", "wait", "idle", "workers", "expected"),
    [
        (4, 16, 4, 0, 24),  # everything in turn
        (4, 16, 4, 1, 20),  # the worker sets the pace
        (4, 16, 4, 2, 10),
        (4, 16, 4, 4, 5),
        (4, 16, 4, 8, 4),  # the loop sets the pace
        (20, 0, 2, 4, 10),  # two cores set the pace
        (20, 0, 2, 16, 10),
    ],
)
def test_the_corners_are_the_closed_forms(cpu, wait, idle, workers, expected):
    found = step_seconds(scene(cpu * MS, wait * MS, idle * MS, workers=workers))
    assert found == pytest.approx(expected * MS, rel=0.02)


def test_a_model_on_the_same_cores_is_slowed_by_its_workers():
    alone = step_seconds(scene(1 * MS, compute=10 * MS, workers=1, threads=2.0))
    crowded = step_seconds(scene(10 * MS, compute=10 * MS, workers=4, threads=2.0))
    assert crowded > 1.3 * alone


def test_workers_share_cores_with_the_threads_of_the_exchange():
    """A rank's one core: making 8 ms, model 2 ms, exchange 4 ms, for half of which its threads compute."""
    asleep = Scenario((BatchCost(8 * MS),), (StepCost(2 * MS, 0, comm=4 * MS),), cores=1)
    awake = replace(asleep, shares=CostShares(exchanging=0.5))
    assert (step_seconds(awake), step_seconds(asleep)) == pytest.approx((14 * MS, 14 * MS))
    assert step_seconds(apply(Change(workers=2), asleep)) == pytest.approx(10 * MS, rel=0.02)
    assert step_seconds(apply(Change(workers=2), awake)) == pytest.approx(12 * MS, rel=0.02)
    assert step_seconds(apply(Change(workers=2, comm=0), awake)) == pytest.approx(10 * MS, rel=0.02)


def test_reads_share_the_streams_that_the_storage_has():
    free = Scenario((BatchCost(0, storage=10 * MS),), (StepCost(0, 0.1 * MS),), workers=8)
    narrow = apply(Change(streams=2.0), free)
    assert step_seconds(free) == pytest.approx(10 / 8 * MS, rel=0.05)
    assert step_seconds(narrow) == pytest.approx(10 / 2 * MS, rel=0.05)


def test_out_of_order_whoever_is_finished_first_comes_first():
    """torch gives batches as they arrive, and indices by turns to workers that have room: the one with the
    slow batch keeps what it was given, and the others go on."""
    works = (BatchCost(0, wait=1.0), *[BatchCost(0, wait=10 * MS)] * 191)
    pipeline = _Pipeline(Scenario(works, (StepCost(0, LITTLE),), workers=2, prefetch=2, in_order=False))
    arrivals = pipeline.run()
    # Worker 0 sleeps for a second on the first; worker 1 makes one each 10 ms, and is given no index of its.
    assert arrivals[89] == pytest.approx(0.9, rel=0.02)
    assert arrivals[105] > 1.0


def test_an_epochs_beginning_is_paid_once_an_epoch():
    base = scene(1 * MS, idle=10 * MS, workers=2, epoch=EpochStart(20, 0.2))
    saved = step_seconds(base) - step_seconds(apply(Change(startup=0), base))
    assert saved == pytest.approx(0.2 / 20, rel=0.05)


def test_the_smallest_worker_count_that_is_good_enough_is_advised():
    assert best_setting(scene(0, 20 * MS, 5 * MS)).workers == 4
    assert best_setting(scene(20 * MS, 0, 2 * MS, cores=2.0)).workers == 2
    assert best_setting(scene(2 * MS, 0, 10 * MS)).workers == 1


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
