"""Standing still in a line that works, beside a busy thread, is waiting for the lock; sleeping is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.interpreter_lock import held_by_lock, lock_wait
from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.diagnosis import BatchCost, CostShares, FeederLoad, Scenario, StepCost
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Run
from tests.findings.builders import loop_of

LOOP = loop_of(400)
BACKWARD, SLEEP, SAVE = "run (graph.py:9)", "sleep (train.py:5)", "save (/x/torch/serialization.py:9)"
COUNT = "count (/data/train.py:20)"


def profile(main: dict[str, tuple[int, int | None]], other: int | None) -> Profile:
    stacks = [Stack(1, "trainer", "MainThread", [line], *seen) for line, seen in main.items()]
    stacks.append(Stack(1, "trainer", "Thread-1", [COUNT], 100, other))
    return Profile(Run([], None, "/", "", 1.0, 0), Machine("", "", "", 2, 2.0), stacks=stacks)


@pytest.mark.parametrize(
    ("main", "other", "share"),
    [
        ({BACKWARD: (100, 40)}, 95, 0.6),
        ({BACKWARD: (50, 20), SLEEP: (50, 1)}, 95, 0.3),
        ({BACKWARD: (100, 40)}, 20, 0.0),
        ({SAVE: (100, 40)}, 95, 0.0),
        ({BACKWARD: (100, 110)}, 95, 0.0),
    ],
)
def test_the_share_of_the_wait(main: dict[str, tuple[int, int | None]], other: int, share: float) -> None:
    seen = lock_wait(profile(main, other), LOOP)
    assert seen is not None
    assert seen.share == pytest.approx(share)


def test_the_busy_thread_is_named() -> None:
    seen = lock_wait(profile({BACKWARD: (100, 40)}, 95), LOOP)
    assert seen is not None
    assert seen.location == Location("/data/train.py", 20, "count")


def test_without_knowing_who_was_awake_nothing_is_said() -> None:
    assert lock_wait(profile({BACKWARD: (100, None)}, None), LOOP) is None
    assert lock_wait(profile({BACKWARD: (10, 4)}, 95), LOOP) is None
    assert lock_wait(profile({BACKWARD: (100, 40)}, 95), replace(LOOP, thread=1)) is None


def test_time_without_the_lock_is_the_interpreters() -> None:
    base = Scenario(
        (BatchCost(0.001),), (StepCost(0.004, 0.006),), threads=2.0, shares=CostShares(stored=0.8)
    )
    held = held_by_lock(profile({BACKWARD: (100, 70)}, 95), LOOP, base)
    assert held.shares.stored == pytest.approx(0.04), "a log waits for the thread that writes it"
    assert held.threads == 1.0
    assert held.costs[0].python == pytest.approx(0.006), "nothing else explains why it stood still"
    assert held.costs[0].idle == pytest.approx(0.0)
    assert held_by_lock(profile({SLEEP: (100, 1)}, 95), LOOP, base) == base


def test_the_lock_that_a_feeding_thread_holds_is_the_inputs() -> None:
    base = Scenario((BatchCost(0.001),), (StepCost(0.004, 0.006),), threads=2.0, feeders=FeederLoad(1))
    held = held_by_lock(profile({BACKWARD: (100, 70)}, 95), LOOP, base)
    assert (held.costs[0].python, held.costs[0].idle) == (0.0, pytest.approx(0.0))
    assert held.crowded == pytest.approx(0.006)
