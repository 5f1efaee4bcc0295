"""What getting a batch costs a loop without a loader: by its clocks, and by what it was seen to sleep in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.inputs import disagreement, own_inputs, own_works, split_waits, with_feeders
from bottleneck_doctor.analyse.loop_without_loader import InputGap, with_waits
from bottleneck_doctor.analyse.replay import apply, step_seconds
from bottleneck_doctor.analyse.steady import steps_of
from bottleneck_doctor.model.diagnosis import Change, Scenario, StepCost
from bottleneck_doctor.model.fetches import Blocked
from bottleneck_doctor.model.profile import Profile
from tests.analyse.runs import own_loop, run_of

MS = 1e-3
# Steps of 10 ms: a gap of 6 with 2 on the CPU and 1 without a core; 3 more on the CPU beside it.
LOOP = with_waits(
    run_of(),
    own_loop(100, wall_s=10 * MS, gap_s=6 * MS, gap_cpu_s=2 * MS, gap_runq_s=1 * MS, cpu_s=5 * MS,
             runq_s=1 * MS),
    InputGap(1.0, 0.0, 1.0),
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
    inputs = own_inputs(STEPS, split, 0.0)
    assert (inputs.batches, inputs.wall, inputs.cpu, inputs.queue) == pytest.approx(
        (100, 6 * MS, 2 * MS, 1 * MS)
    )
    assert (inputs.storage, inputs.network) == pytest.approx((storage * MS, network * MS))
    assert inputs.waits == pytest.approx({name: one * MS for name, one in waits.items()})
    work = own_works(STEPS, split, 0.0)[0]
    assert (work.cpu, work.storage, work.network, work.wait) == pytest.approx(
        (2 * MS, storage * MS, network * MS, sum(waits.values()) * MS)
    )


def test_waiting_for_a_thread_that_runs_is_the_making_of_a_batch_by_looks_at_that_thread() -> None:
    split = with_feeders(
        split_waits(seen({"made": 60, "storage": 20, "lock": 20}), LOOP, 3.0, 4.0), 0.7, False
    )
    work = own_works(STEPS, split, 0.0)[0]
    assert (work.cpu, work.storage, work.wait) == pytest.approx((2 * MS + 1.8 * MS, 0.6 * MS, 0.6 * MS))


def test_or_by_the_threads_that_it_waits_for_itself() -> None:
    for looks in ({"lock": 100}, {"lock": 90, "made": 10}):
        split = with_feeders(split_waits(seen(looks), LOOP, 3.0, 4.0), 0.5, False)
        work = own_works(STEPS, split, 0.0)[0]
        assert (work.cpu, work.wait) == pytest.approx((2 * MS + 1.5 * MS, 1.5 * MS))


@pytest.mark.parametrize(("processes", "made"), [(True, 2.7 * MS), (False, 0.0)])
def test_or_by_the_processes_at_whose_pipe_it_waits(processes: bool, made: float) -> None:
    split = with_feeders(split_waits(seen({"pipe": 100}), LOOP, 3.0, 4.0), 0.9, processes)
    work = own_works(STEPS, split, 0.0)[0]
    assert (work.cpu, work.wait) == pytest.approx((2 * MS + made, 3 * MS - made))


@pytest.mark.parametrize(
    ("system_s", "bytes_per_s", "reading_s"),
    [
        (1.5 * MS, 1e9, 1.5 * MS),  # 10 MB a step: the kernel's time is for them
        (1.5 * MS, 1e7, 0.15 * MS),  # hardly anything was read: it is for something else
        (5 * MS, 1e9, 2 * MS),  # no more than getting the batch takes of the CPU
        (None, 1e9, 0.0),
    ],
)
def test_the_kernels_cpu_for_reads_goes_with_the_reads(
    system_s: float | None, bytes_per_s: float, reading_s: float
) -> None:
    steps = [replace(one, system=system_s, faults=0.0) for one in STEPS]
    split = split_waits(seen({"storage": 30}), LOOP, 3.0, 4.0)
    work = own_works(steps, split, bytes_per_s)[0]
    assert (work.reading, work.on_core) == pytest.approx((reading_s, 2 * MS))
    inputs = own_inputs(steps, split, bytes_per_s)
    assert (inputs.reading, inputs.cpu) == pytest.approx((reading_s, 2 * MS))
    alone = Scenario((work,), (StepCost(3 * MS),))
    assert step_seconds(apply(Change(storage=0), alone)) == pytest.approx(5 * MS - reading_s)
    assert step_seconds(apply(Change(cpu=0), alone)) == pytest.approx(6 * MS + reading_s)


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
    assert own_inputs([], split_waits(seen({}), LOOP, 3.0, 4.0), 0.0).batches == 0
    assert disagreement(seen({"running": 60}), LOOP, []) == 0.0
