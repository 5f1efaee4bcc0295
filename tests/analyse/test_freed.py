"""The line that asks for the next batch drops the one before: that is part of getting a batch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.memory import with_freed
from bottleneck_doctor.analyse.steady import steps_of
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.profile import Profile
from tests.analyse.runs import run_of
from tests.analyse.test_loop_parts import TORCH, body, stack

MS = 1e-3
ASKED = stack(40, "itself")
FETCHED = replace(ASKED, frames=[*ASKED.frames, f"__next__ ({TORCH}utils/data/dataloader.py:1)"])


def run(*stacks: Stack) -> Profile:
    """Steps of 10 ms, 2 of them waiting; so many samples of a loop of the lines 40 to 50."""
    seen = run_of(cpu=2 * MS, compute=8 * MS)
    loop = replace(seen.loops[0], body=body())
    return replace(seen, loops=[loop], stacks=[replace(one, pid=loop.pid) for one in stacks])


def waits(seen: Profile) -> tuple[float, float]:
    """Seconds that a step waits, before and after."""
    steps = steps_of(seen.loops[0].table)
    freed = with_freed(seen, seen.loops[0], steps)
    for one, other in zip(steps, freed, strict=True):
        assert other.wait + other.compute == pytest.approx(one.wait + one.compute)
        assert (other.cpu or 0.0) + (other.wait_cpu or 0.0) == pytest.approx(
            (one.cpu or 0.0) + (one.wait_cpu or 0.0)
        )
    return steps[0].wait, freed[0].wait


def test_samples_in_the_line_that_asks_are_a_share_of_what_no_hook_times() -> None:
    """Ten of forty; the backward pass is timed, however many samples it holds."""
    seen = run(FETCHED, replace(ASKED, count=10), stack(42, "model", 30), stack(44, "backward", 500))
    before, after = waits(seen)
    compute = steps_of(seen.loops[0].table)[0].compute
    assert after - before == pytest.approx(compute / 4)


def test_the_data_wait_of_the_gate_does_not_depend_on_stacks() -> None:
    seen = run(FETCHED, replace(ASKED, count=10), stack(42, "model", 30), stack(44, "backward", 500))
    with_stacks, without = (diagnose(one).metrics for one in (seen, replace(seen, stacks=[])))
    assert with_stacks["data_wait_fraction"] == without["data_wait_fraction"]
    step = steps_of(seen.loops[0].table)[0]
    assert with_stacks["batch_release_fraction"].value == pytest.approx(step.compute / 4 / step.wall)
    assert "batch_release_fraction" not in without


@pytest.mark.parametrize(
    "stacks",
    [
        [FETCHED, replace(ASKED, count=2), stack(42, "model", 80)],
        [FETCHED, stack(43, "itself", 30), stack(42, "model", 80)],
        [replace(ASKED, count=30), stack(42, "model", 80)],
        [FETCHED, replace(ASKED, count=5)],
    ],
    ids=["torn stacks", "another line", "a line that asks no loader", "too few samples"],
)
def test_else_nothing_moves(stacks: list[Stack]) -> None:
    before, after = waits(run(*stacks))
    assert before == after
