"""Which iterators trained and which did not, told by the backward passes between their batches."""

from __future__ import annotations

import pytest

from bottleneck_doctor.assemble.loaders import Iteration, read_iterations
from tests.assemble.logs import PID, Script, asks, ends, log, opens, trains

NUMBERING = {(PID, 1): "100:1", (PID, 2): "100:2"}


@pytest.fixture
def script() -> Script:
    return Script()


def read(script: Script) -> dict[int, Iteration]:
    return {one.number: one for one in read_iterations(log(script.rows), NUMBERING)}


def test_a_loop_that_trains_gets_all_its_passes(script: Script) -> None:
    opens(script, 1, 0)
    for step in range(5):
        asks(script, 1, 10 + 10 * step)
        trains(script, 15 + 10 * step)
    ends(script, 1, 60)
    one = read(script)[1]
    assert (one.role, one.batches, one.backwards, one.optimizer_steps) == ("train", 5, 5, 4)


def test_a_loop_that_gathers_many_batches_for_each_pass_trains(script: Script) -> None:
    """Contrastive losses over many batches, rollouts that are read through a loader."""
    opens(script, 1, 0)
    for step in range(96):
        asks(script, 1, 10 + 10 * step)
        if step % 24 == 23:
            trains(script, 15 + 10 * step)
    ends(script, 1, 1000)
    opens(script, 2, 1010, loader=2)
    for step in range(24):
        asks(script, 2, 1020 + 10 * step, loader=2)
    ends(script, 2, 1300, loader=2)
    found = read(script)
    assert [(found[number].role, found[number].backwards) for number in (1, 2)] == [
        ("train", 4),
        ("evaluation", 0),
    ]


def test_an_evaluation_between_two_epochs_gets_none(script: Script) -> None:
    for epoch in range(2):
        start = 1000 * epoch
        opens(script, 1 + 2 * epoch, start)
        for step in range(3):
            asks(script, 1 + 2 * epoch, start + 10 + 10 * step)
            trains(script, start + 15 + 10 * step)
        ends(script, 1 + 2 * epoch, start + 50)
        opens(script, 2 + 2 * epoch, start + 60, loader=2)
        for step in range(3):
            asks(script, 2 + 2 * epoch, start + 70 + 10 * step, loader=2)
        ends(script, 2 + 2 * epoch, start + 100, loader=2)
    found = read(script)
    assert [found[number].role for number in (1, 2, 3, 4)] == ["train", "evaluation", "train", "evaluation"]
    assert [found[number].backwards for number in (1, 2, 3, 4)] == [3, 0, 3, 0]


def test_an_evaluation_that_was_broken_off_in_mid_epoch_gets_none(script: Script) -> None:
    opens(script, 1, 0)
    asks(script, 1, 10)
    trains(script, 15)
    opens(script, 2, 20, loader=2)
    for step in range(4):
        asks(script, 2, 21 + step, loader=2)
    for step in range(4):
        asks(script, 1, 40 + 10 * step)
        trains(script, 45 + 10 * step)
    ends(script, 1, 90)
    found = read(script)
    assert (found[1].role, found[1].backwards) == ("train", 5)
    assert (found[2].role, found[2].backwards) == ("evaluation", 0)


def test_loaders_side_by_side_share_each_step(script: Script) -> None:
    opens(script, 1, 0)
    opens(script, 2, 1, loader=2)
    for step in range(4):
        asks(script, 1, 10 + 10 * step)
        asks(script, 2, 12 + 10 * step, loader=2)
        trains(script, 15 + 10 * step)
    ends(script, 1, 60)
    found = read(script)
    assert [(found[n].role, found[n].backwards) for n in (1, 2)] == [("train", 4), ("train", 4)]


def test_steps_between_two_looks_belong_to_the_batch_before_them(script: Script) -> None:
    opens(script, 1, 0)
    asks(script, 1, 10)
    trains(script, 11, steps=8)
    asks(script, 1, 90, skipped=7)
    trains(script, 91, steps=3)
    ends(script, 1, 120)
    one = read(script)[1]
    assert (one.batches, one.backwards) == (9, 11)


def test_a_thread_that_never_trains_prefetches(script: Script) -> None:
    opens(script, 1, 0, thread=3)
    for step in range(3):
        asks(script, 1, 10 + 10 * step, thread=3)
        trains(script, 15 + 10 * step, thread=0)
    assert read(script)[1].role == "prefetch"


def test_an_iterator_belongs_to_the_thread_that_asks_it(script: Script) -> None:
    opens(script, 1, 0, thread=0)
    asks(script, 1, 10, thread=3)
    trains(script, 15, thread=0)
    assert read(script)[1].thread == 3


def test_where_nothing_is_differentiated_the_largest_loader_is_the_loop(script: Script) -> None:
    opens(script, 1, 0)
    asks(script, 1, 10)
    opens(script, 2, 20, loader=2)
    for step in range(3):
        asks(script, 2, 30 + step, loader=2)
    found = read(script)
    assert [found[n].role for n in (1, 2)] == ["evaluation", "train"]


def test_an_iterator_whose_opening_was_lost_is_still_one(script: Script) -> None:
    opens(script, 1, 0)
    asks(script, 1, 10)
    script.rows = script.rows[1:]
    assert read(script)[1].loader == "100:1"
