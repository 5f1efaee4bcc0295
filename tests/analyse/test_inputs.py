"""What a batch costs: CPU of other threads is the batch's only where it can have waited for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.inputs import BlockedSplit, measure_inputs, without_openings, works_of
from bottleneck_doctor.model.fetches import Blocked
from bottleneck_doctor.model.profile import Profile
from tests.analyse.runs import run_of

MS = 1e-3


def fetched(seen: dict[str, int]) -> Profile:
    """Batches of 10 ms, 8 of them asleep in what was seen, while other threads burn 6 ms."""
    run = run_of(cpu=2 * MS, sleep=8 * MS, noise=0.0)
    table = replace(run.fetches[0], other_cpu_s=[6 * MS] * len(run.fetches[0].t))
    return replace(run, fetches=[table], blocked=[Blocked("1:1", [3.0], [seen])] if seen else [])


@pytest.mark.parametrize(
    ("seen", "cpu_ms", "wait_ms"),
    [
        ({"sleep": 50}, 2, 8),  # helpers that spin meanwhile work for nobody
        ({"poll": 50}, 2, 8),
        ({"lock": 50}, 8, 2),  # a pool of threads that the batch waits for
        ({"sleep": 25, "lock": 25}, 6, 4),
        ({}, 8, 2),  # nobody looked: the batch is given what was burned
    ],
)
def test_helpers_that_spin_are_not_the_batchs_cpu_while_it_sleeps(
    seen: dict[str, int], cpu_ms: float, wait_ms: float
) -> None:
    run = fetched(seen)
    inputs = measure_inputs(run, run.fetches[0], 3.0, 99.0, 0)
    split = BlockedSplit(0.0, 0.0, {name: inputs.waits[name] / inputs.wait for name in inputs.waits},
                  inputs.blocked_samples)  # fmt: skip
    work = works_of(run.fetches[0], split, [0])[0]
    assert inputs.wait == pytest.approx(wait_ms * MS)
    assert (work.cpu + work.collate, work.wait) == pytest.approx((cpu_ms * MS, wait_ms * MS))


def opening(first_ms: float, **loader: object) -> list[float]:
    """Milliseconds of the fetches that are left, where each worker's first of an epoch takes that long."""
    run = run_of(cpu=1 * MS, workers=2, epochs=3, steps=30, noise=0.0)
    table = run.fetches[0]
    slow = [first_ms * MS if place % 10 < 2 else wall for place, wall in enumerate(table.wall_s)]
    kept = without_openings(replace(table, wall_s=slow), run.loops[0], replace(run.loaders[0], **loader))
    assert len(kept.t) == len(kept.cpu_s) == len(kept.wall_s)
    return [round(wall / MS) for wall in kept.wall_s]


def test_what_each_new_worker_does_once_is_no_part_of_a_batch() -> None:
    assert opening(250) == [1] * 24
    assert len(opening(2)) == 30, "a first batch like others"
    assert len(opening(250, persistent_workers=True)) == 30, "nobody starts again"
    assert len(opening(250, dataset_kind="iterable")) == 30, "its iterators begin anew in kept workers, too"
