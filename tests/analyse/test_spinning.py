"""Steps that differ without a reason spin; steps that have more to do, or nobody in their way, do not."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.replay import apply, step_seconds
from bottleneck_doctor.analyse.threads import spinning_share
from bottleneck_doctor.model.diagnosis import BatchCost, Change, CostShares, Scenario, Step, StepCost
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Process
from tests.analyse.runs import run_of

MS = 1e-3
BASE = Scenario((BatchCost(30 * MS),), (StepCost(12 * MS),), workers=2, cores=2.0, threads=2.0)


def run(threads: int | None) -> Profile:
    return replace(run_of(compute=0.02), processes=[Process(1, 0, "trainer", 0.0, torch_threads=threads)])


def crowded(seed: int, *, more: bool = False) -> list[Step]:
    """Steps of 6 ms that spin now in one pass, now in the other; or that have ``more`` to do in both."""
    chance = random.Random(seed)
    steps = []
    for place in range(40):
        spun = chance.uniform(0, 20 * MS) if more or chance.random() < 0.5 else 0.0
        early = 0.5 if more else chance.choice([0.0, 1.0])
        forward, backward = 4 * MS + early * spun, 2 * MS + (1 - early) * spun
        steps.append(
            Step(place * 0.03, 1, 0.03, 2 * MS, backward, 0.0, 0.0, 0.0, 0.0, 0.0, forward,
                 cpu=forward + backward, queue=8 * MS, process_cpu=0.02, wait_cpu=0.0, ready=None)
        )  # fmt: skip
    return steps


@pytest.mark.parametrize("seed", range(5))
def test_what_is_beyond_the_quickest_steps_is_spun_away(seed: int) -> None:
    steps = crowded(seed)
    profile = run(2)
    share = spinning_share(profile, profile.loops[0], steps, BASE, 2)
    mean = sum(step.cpu or 0.0 for step in steps) / len(steps)
    assert (1 - share) * mean == pytest.approx(6 * MS, rel=0.1)


@pytest.mark.parametrize(
    ("threads", "makers", "steps"),
    [
        (2, 2, crowded(1, more=True)),
        (2, 2, [replace(step, queue=0.0) for step in crowded(1)]),
        (2, 2, [replace(step, steps=7) for step in crowded(1)]),
        (2, 2, [replace(step, exchange=MS) for step in crowded(1)]),
        (2, 0, crowded(1)),
        (1, 2, crowded(1)),
        (4, 2, crowded(1)),
        (None, 2, crowded(1)),
    ],
    ids=["more to do", "nobody waits", "rows of many steps", "ranks", "nobody makes batches", "one thread",
         "in its own way", "nobody asked"],
)  # fmt: skip
def test_nothing_is_claimed_where_it_may_be_something_else(
    threads: int | None, makers: int, steps: list[Step]
) -> None:
    profile = run(threads)
    assert spinning_share(profile, profile.loops[0], steps, BASE, makers) == 0.0


def test_spinning_ends_with_those_who_make_batches() -> None:
    scene = replace(BASE, shares=CostShares(spinning=0.5))
    assert apply(Change(), scene) == scene
    assert apply(Change(cpu=0.0), scene).costs[0].compute == pytest.approx(6 * MS)
    assert apply(Change(cpu=0.5), scene).costs[0].compute == pytest.approx(9 * MS)
    assert apply(Change(cores=8.0), scene).costs[0].compute == pytest.approx(6 * MS)
    assert apply(Change(compute=0.0), scene).costs[0].compute == 0.0
    assert step_seconds(apply(Change(cpu=0.0), scene)) < step_seconds(apply(Change(cpu=0.0), BASE))
