"""Threads and processes that make batches beside a loop without a loader."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.causes import cause_gains, without_feeders
from bottleneck_doctor.analyse.hot_lines import Feeders, find_feeders, hot_lines
from bottleneck_doctor.model.diagnosis import BatchCost, FeederLoad, HostLoad, Inputs, Scenario, StepCost
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Process
from tests.analyse.runs import own_loop
from tests.analyse.test_loop_parts import FILE, TORCH, profile, stack

LOOP = replace(stack(44, "backward", 200), running=80)
FEEDER = Stack(1, "trainer", "Thread-1", [f"run ({FILE}:60)", f"decode ({FILE}:70)"], 200, 190)
STARTED = [f"main ({FILE}:88)", "start (/usr/lib/python3.11/multiprocessing/process.py:121)"]
POOLED = [*STARTED, "worker (/usr/lib/python3.11/multiprocessing/pool.py:125)", f"degrade ({FILE}:75)"]


def pooled(count: int) -> Profile:
    """A loop beside so many forked processes of a pool."""
    children = [Process(pid, 1, "other", 0.0) for pid in range(10, 10 + count)]
    stacks = [Stack(one.pid, "trainer", "MainThread", POOLED, 200, 160) for one in children]
    return replace(profile(LOOP, *stacks), processes=[Process(1, 0, "trainer", 0.0), *children])


def test_a_busy_thread_of_the_users_is_a_feeder_and_its_lines_make_the_batches() -> None:
    found = find_feeders(profile(LOOP, FEEDER), 1)
    assert (found.count, found.cores) == (1, pytest.approx(0.95))
    hottest = hot_lines(profile(LOOP, FEEDER), None, own_loop(100, wall_s=0.02)).hottest
    assert hottest is not None
    assert (hottest.location.function, hottest.location.line) == ("decode", 70)


def test_a_batch_that_waits_for_room_in_the_queue_is_not_being_made() -> None:
    path = [
        f"run ({FILE}:61)",
        "put (/usr/lib/python3.11/queue.py:140)",
        "wait (/usr/lib/python3.11/threading.py:327)",
    ]
    ahead = Stack(1, "trainer", "Thread-1", path, 300, 2)
    assert (
        find_feeders(profile(LOOP, FEEDER, ahead), 1).stacks == find_feeders(profile(LOOP, FEEDER), 1).stacks
    )
    hottest = hot_lines(profile(LOOP, FEEDER, ahead), None, own_loop(100, wall_s=0.02)).hottest
    assert hottest is not None
    assert (hottest.location.function, hottest.share) == ("decode", 1.0)


@pytest.mark.parametrize(
    "beside",
    [
        replace(FEEDER, running=20),
        replace(FEEDER, frames=["wait (/usr/lib/python3.11/threading.py:320)"]),
        replace(FEEDER, pid=2),
        replace(FEEDER, frames=[f"save ({FILE}:61)", f"_save ({TORCH}serialization.py:900)"]),
    ],
)
def test_a_thread_that_sleeps_writes_or_runs_no_line_of_the_users_is_none(beside: Stack) -> None:
    assert find_feeders(profile(LOOP, beside), 1) == Feeders()


def test_processes_of_a_pool_are_feeders_below_the_frames_of_their_parent() -> None:
    found = find_feeders(pooled(4), 1)
    assert (found.count, found.cores) == (4, pytest.approx(3.2))
    assert {one.frames[0] for one in found.stacks} == {f"degrade ({FILE}:75)"}


def test_twenty_looks_of_a_sampler_that_many_threads_slow_down_are_enough() -> None:
    scarce = replace(
        pooled(2), stacks=[replace(one, count=one.count // 10, running=(one.running or 0) // 10)
                           for one in pooled(2).stacks],
    )  # fmt: skip
    assert find_feeders(scarce, 1).count == 2


def test_those_that_a_fork_server_started_are_the_trainings_all_the_same() -> None:
    base = pooled(4)
    server = [Process(1, 0, "trainer", 0.0), Process(9, 1, "other", 0.0)]
    children = [replace(one, ppid=9) for one in base.processes[1:]]
    assert find_feeders(replace(base, processes=[*server, *children]), 1).count == 4


@pytest.mark.parametrize(("feeders", "cause"), [(1, "input.preprocess"), (4, "input.oversubscribed")])
def test_the_core_that_feeders_keep_from_the_loop_is_the_inputs_and_not_the_models(
    feeders: int, cause: str
) -> None:
    base = Scenario(
        (BatchCost(0.002),), (StepCost(0.008),), cores=2.0, feeders=FeederLoad(feeders), crowded=0.02
    )
    found = cause_gains(base, Inputs(), None, HostLoad(cores=2.0))
    assert found[cause] > 2.5 > 1.5 > found["model.compute"]
    assert (without_feeders(base) > 1) == (feeders > 2)
