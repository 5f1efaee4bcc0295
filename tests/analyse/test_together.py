"""Threads that compute together beside workers: what was measured of them on two cores is replayed.

Batches of plain Python take 31 ms; medians of 150 steps each, a transformer and linear layers.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest

from bottleneck_doctor.analyse.replay import apply, cost_seconds, step_seconds
from bottleneck_doctor.analyse.scenario import fitted
from bottleneck_doctor.model.diagnosis import BatchCost, Change, Scenario, StepCost, Transport

MS = 1e-3
MAKING_MS = 31.5


def beside(model_ms: float) -> Scenario:
    """A loop that makes its batches itself, beside a model on two threads; handing over costs little."""
    return Scenario(
        (BatchCost(MAKING_MS * MS),), (StepCost(model_ms * MS),), cores=2.0, threads=2.0,
        transport=Transport(0.7 * MS, 0.3 * MS, transfer=0.2 * MS, waking=3 * MS, delay=0.2 * MS),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("model_ms", "workers", "one_thread_ms", "measured_ms"),
    [
        (31.0, 0, None, 64.0),  # a transformer
        (31.0, 1, None, 66.0),
        (31.0, 2, None, 67.0),
        (31.0, 1, 44.0, 46.0),
        (31.0, 2, 44.0, 47.0),
        (11.5, 1, None, 46.0),  # linear layers
        (11.5, 2, None, 34.0),
        (11.5, 1, 15.0, 35.0),
        (11.5, 2, 15.0, 27.0),
    ],
)
def test_a_step_takes_what_it_took(
    model_ms: float, workers: int, one_thread_ms: float | None, measured_ms: float
) -> None:
    base = beside(model_ms)
    change = Change(workers=workers)
    if one_thread_ms is not None:
        change = replace(change, threads=1.0, compute=one_thread_ms / model_ms)
    assert step_seconds(apply(change, base)) == pytest.approx(measured_ms * MS, rel=0.2)


def test_long_operators_keep_more_of_their_speed_beside_workers() -> None:
    """Measured beside a busy process: 0.27 of it in products of 1.3 ms, 0.56 in those of 83 ms."""
    short, long = (replace(beside(60.0), workers=2, operator_s=one * MS) for one in (1.0, 83.0))
    assert step_seconds(long) < 0.95 * step_seconds(short)
    assert step_seconds(replace(short, operator_s=0.0)) == step_seconds(short), "not known"


def test_more_workers_than_cores_do_not_outrun_threads_that_wait_for_each_other() -> None:
    base = beside(12.0)
    steps = [step_seconds(apply(Change(workers=count), base)) for count in (2, 4, 8)]
    assert max(steps) < 1.2 * min(steps)


def test_a_run_beside_workers_holds_their_interference() -> None:
    """What the model takes alone is found again from how long it took beside two workers."""
    alone = apply(Change(workers=2), beside(20.0))
    slowed = replace(alone, costs=(replace(alone.costs[0], compute=30 * MS),))  # the CPU that was spun, too
    own = cost_seconds(alone) - alone.transport.hand_over
    assert own > 1.5 * 20 * MS
    found = fitted(slowed, step_seconds(alone), own, bulky=False)
    assert fmean(cost.compute for cost in found.costs) == pytest.approx(20 * MS, rel=0.1)


def test_what_torch_makes_takes_longer_in_a_worker() -> None:
    plain = Scenario((BatchCost(20 * MS),), (StepCost(0.0, 5 * MS),), cores=4.0)
    shared = replace(plain, making_threads=2.0)
    one, two = (step_seconds(apply(Change(workers=1), base)) for base in (plain, shared))
    assert two == pytest.approx(1.5 * one, rel=0.1)
    assert step_seconds(shared) == step_seconds(plain)
