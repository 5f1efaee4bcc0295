"""The time between epochs: how much it is, and whether the loop computes in Python there."""

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.attribution import epoch_ends
from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.loops import LoopBody
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Elapsed
from tests.analyse.runs import run_of

MS = 1e-3


def _stalled(seconds: float, cpu: float, between_s: float) -> Profile:
    """Twelve epochs of 25 steps of 5 ms, and so many seconds between two of them."""
    run = run_of(cpu=0.2 * MS, compute=5 * MS, steps=300, epochs=12)
    (loop,) = run.loops
    table = loop.table
    for place, (before, epoch) in enumerate(zip(table.epoch, table.epoch[1:], strict=False), 1):
        if before != epoch:
            table.wall_s[place] += seconds
            table.cpu_s[place] = (table.cpu_s[place] or 0.0) + cpu
    life = Elapsed(1, 0.0, 60.0, training_s=sum(table.wall_s) - 11 * seconds, between_s=between_s)
    loop = replace(loop, body=LoopBody("train.py", "main", 10, 20, outer=LoopBody("train.py", "main", 5, 30)))
    stacks = [Stack(1, "trainer", "MainThread", [f"main (train.py:{line})"], 100) for line in (15, 25)]
    return replace(run, loops=[loop], elapsed=[life], stacks=stacks)


def test_what_passes_between_epochs_is_the_loops_own_python_and_no_model() -> None:
    run = _stalled(0.5, 0.5, 5.5)
    ends = epoch_ends(run, run.loops[0])
    assert ends.share == pytest.approx(5.5 / sum(run.loops[0].table.wall_s), rel=0.05)
    assert ends.cpu == pytest.approx(1.0, abs=0.05)
    found = diagnose(run)
    assert found.verdict.cause == "host.python"
    assert next(part.share for part in found.budget if part.part == "between epochs") > 0.7


def test_what_torch_computes_between_epochs_is_not_the_loops_python() -> None:
    run = _stalled(0.5, 0.5, 5.5)
    call = "Linear.forward (/x/site-packages/torch/nn/modules/linear.py:9)"
    evaluating = replace(run.stacks[1], frames=[*run.stacks[1].frames, call])
    assert diagnose(replace(run, stacks=[run.stacks[0], evaluating])).verdict.cause == "model.compute"
    assert diagnose(replace(run, stacks=run.stacks[:1])).verdict.cause == "model.compute", "nobody looked"


def test_it_may_sleep_there_and_hooks_have_the_last_word() -> None:
    asleep = _stalled(0.5, 0.05, 5.5)
    assert epoch_ends(asleep, asleep.loops[0]).cpu == pytest.approx(0.1, abs=0.05)
    less = _stalled(0.5, 0.5, 1.0)
    life = less.elapsed[0]
    assert epoch_ends(less, less.loops[0]).share == 1.0 / (life.training_s + 1.0)
    noise = _stalled(0.0, 0.0, 5.5)
    assert epoch_ends(noise, noise.loops[0]).share == 0.0
    unseen = replace(asleep, elapsed=[])  # rows of several steps may be long for another reason
    assert epoch_ends(unseen, unseen.loops[0]).share == 0.0
