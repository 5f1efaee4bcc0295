"""What getting a batch costs a loop without a loader: by its clocks, and by what it was seen to sleep in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.outside import Gap, as_loop
from bottleneck_doctor.analyse.own_inputs import disagreement, own_inputs, own_works, split_waits
from bottleneck_doctor.analyse.steady import steps_of
from bottleneck_doctor.model.profile import Blocked, Profile
from tests.analyse.runs import own_loop, run_of

MS = 1e-3
# Steps of 10 ms: a gap of 6 with 2 on the CPU and 1 without a core; 3 more on the CPU beside it.
LOOP = as_loop(
    run_of(),
    own_loop(100, wall_s=10 * MS, gap_s=6 * MS, gap_cpu_s=2 * MS, gap_runq_s=1 * MS, cpu_s=5 * MS,
             runq_s=1 * MS),
    Gap(1.0, 0.0, 1.0),
)  # fmt: skip
STEPS = steps_of(LOOP.table)


def seen(counts: dict[str, int], pid: int = 1, loader: str = "") -> Profile:
    """A run in which the loop's thread was looked at from outside, in each half second."""
    looks = Blocked(loader, [3.1, 3.4], [counts] * 2, pid=pid)
    return replace(run_of(), blocked=[looks])


@pytest.mark.parametrize(
    ("counts", "storage", "network", "waits"),
    [
        ({"storage": 30, "running": 70}, 3, 0, {}),
        ({"network": 10, "sleep": 20}, 0, 1, {"sleep": 2}),
        ({"running": 100}, 0, 0, {"other": 3}),  # nobody saw it sleep
    ],
)
def test_time_asleep_in_the_gap_is_what_the_thread_was_seen_to_sleep_in(
    counts: dict[str, int], storage: float, network: float, waits: dict[str, float]
) -> None:
    split = split_waits(seen(counts), LOOP, 3.0, 4.0)
    inputs = own_inputs(STEPS, split)
    assert (inputs.batches, inputs.wall, inputs.cpu, inputs.queue) == pytest.approx(
        (100, 6 * MS, 2 * MS, 1 * MS)
    )
    assert (inputs.storage, inputs.network) == pytest.approx((storage * MS, network * MS))
    assert inputs.waits == pytest.approx({name: one * MS for name, one in waits.items()})
    work = own_works(STEPS, split)[0]
    assert (work.cpu, work.storage, work.network, work.wait) == pytest.approx(
        (2 * MS, storage * MS, network * MS, sum(waits.values()) * MS)
    )


@pytest.mark.parametrize("other", [seen({"storage": 50}, pid=2), seen({"storage": 50}, loader="1:1")])
def test_what_others_sleep_in_says_nothing_of_it(other: Profile) -> None:
    assert split_waits(other, LOOP, 3.0, 4.0).waits == {"other": 1.0}


@pytest.mark.parametrize(
    ("counts", "apart"),
    [
        ({"running": 60, "sleep": 40}, 0.0),  # 6 of 10 ms awake, by the thread's own clocks
        ({"running": 10, "storage": 90}, 0.5),
        ({"running": 2, "storage": 18}, 0.0),  # too few to say
    ],
)
def test_clocks_and_looks_from_outside_are_held_against_each_other(
    counts: dict[str, int], apart: float
) -> None:
    assert disagreement(seen(counts), LOOP, STEPS) == pytest.approx(apart)


def test_no_steps_cost_nothing() -> None:
    assert own_inputs([], split_waits(seen({}), LOOP, 3.0, 4.0)).batches == 0
    assert disagreement(seen({"running": 60}), LOOP, []) == 0.0
