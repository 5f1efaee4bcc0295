"""Loops and their steps: every millisecond belongs to one step, and evaluation to none."""

from __future__ import annotations

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.loaders import read_iterations
from bottleneck_doctor.assemble.loops import read_loops
from bottleneck_doctor.model.loops import Loop
from tests.assemble.logs import PID, Script, asks, ends, log, opens, row, trains

NUMBERING = {(PID, 1): "100:1", (PID, 2): "100:2"}


@pytest.fixture
def script() -> Script:
    return Script()


def read(script: Script) -> dict[str, Loop]:
    one = log(script.rows)
    return {loop.loader: loop for loop in read_loops(one, read_iterations(one, NUMBERING), 0)}


def test_a_step_lies_between_two_arrivals(script: Script) -> None:
    opens(script, 1, 0, took_ms=5)
    for step in range(4):
        asks(script, 1, 10 + 20 * step, wait_ms=4)
        trains(script, 16 + 20 * step)
    loop = read(script)["100:1"]
    assert loop.table.wall_s == pytest.approx([0.02, 0.02, 0.02])
    assert loop.table.wait_s == pytest.approx([0.004, 0.004, 0.004])
    assert loop.table.t == pytest.approx([0.034, 0.054, 0.074])
    assert (loop.steps, loop.epochs.build_s, loop.epochs.first_wait_s) == (4, [0.005], [0.004])


def test_what_a_close_look_took_belongs_to_no_step(script: Script) -> None:
    opens(script, 1, 0)
    for step in range(3):
        asks(script, 1, 10 + 20 * step, wait_ms=4)
        trains(script, 16 + 20 * step)
    script.rows.append(row(wire.SAMPLING, 14, 2, thing=1))
    script.rows.append(row(wire.SAMPLING, 35, 2, thing=1))  # begins at no arrival of this loop
    table = read(script)["100:1"].table
    assert table.wall_s == pytest.approx([0.018, 0.02])
    assert table.wait_s == pytest.approx([0.004, 0.004])


def test_an_epochs_start_belongs_to_the_step_that_spans_it(script: Script) -> None:
    for epoch in range(2):
        opens(script, 1 + epoch, 100 * epoch, took_ms=30)
        for step in range(2):
            asks(script, 1 + epoch, 100 * epoch + 40 + 10 * step, wait_ms=1)
            trains(script, 100 * epoch + 45 + 10 * step)
        ends(script, 1 + epoch, 100 * epoch + 60)
    table = read(script)["100:1"].table
    assert table.epoch == [0, 1, 1]
    assert table.wall_s == pytest.approx([0.01, 0.09, 0.01])
    assert table.wait_s == pytest.approx([0.001, 0.031, 0.001])


def test_an_epochs_last_steps_count_though_nobody_looked(script: Script) -> None:
    for epoch in range(2):
        opens(script, 1 + epoch, 200 * epoch)
        asks(script, 1 + epoch, 200 * epoch + 10)
        trains(script, 200 * epoch + 20, steps=10)
        asks(script, 1 + epoch, 200 * epoch + 110, skipped=9)
        trains(script, 200 * epoch + 120, steps=7)
        script.arrived[1 + epoch] += 7
        ends(script, 1 + epoch, 200 * epoch + 190)
    table = read(script)["100:1"].table
    assert table.steps == [10, 8, 10]
    assert table.wall_s == pytest.approx([0.1, 0.1, 0.1])


def test_skipped_steps_are_summed_up(script: Script) -> None:
    opens(script, 1, 0)
    asks(script, 1, 10)
    trains(script, 11, steps=10)
    asks(script, 1, 110, skipped=9)
    table = read(script)["100:1"].table
    assert (table.steps, table.wall_s) == ([10], [pytest.approx(0.1)])
    assert table.backward_s == [pytest.approx(10 * 0.0005)], "what was heard of one stands for all"


def test_evaluation_is_not_in_the_wall_time(script: Script) -> None:
    opens(script, 1, 0)
    for step in range(3):
        asks(script, 1, 10 + 100 * step)
        trains(script, 15 + 100 * step)
        if step == 1:
            opens(script, 2, 120, loader=2)
            for batch in range(4):
                asks(script, 2, 130 + 10 * batch, loader=2)
            ends(script, 2, 170, loader=2)
    loops = read(script)
    assert loops["100:2"].role == "evaluation"
    assert loops["100:1"].table.wall_s == pytest.approx([0.1, 0.05])
    assert loops["100:1"].table.set_aside == ["", "evaluation"]


def test_the_training_between_two_evaluations_is_not_evaluation(script: Script) -> None:
    for epoch in range(2):
        opens(script, 1 + 2 * epoch, 1000 * epoch)
        asks(script, 1 + 2 * epoch, 1000 * epoch + 10)
        trains(script, 1000 * epoch + 20)
        ends(script, 1 + 2 * epoch, 1000 * epoch + 900)
        opens(script, 2 + 2 * epoch, 1000 * epoch + 910, loader=2)
        for place in range(2):
            asks(script, 2 + 2 * epoch, 1000 * epoch + 920 + 20 * place, loader=2)
        ends(script, 2 + 2 * epoch, 1000 * epoch + 960, loader=2)
    evaluation = read(script)["100:2"]
    assert evaluation.role == "evaluation"
    assert evaluation.wall_s == pytest.approx(0.07, abs=0.012), "20 ms, 30 ms across the gap, 20 ms"


def test_an_evaluation_iterator_kept_open_takes_only_its_own_time(script: Script) -> None:
    opens(script, 2, 0, loader=2)
    opens(script, 1, 1)
    for step in range(40):
        asks(script, 1, 10 + 10 * step)
        trains(script, 15 + 10 * step)
        if step % 20 == 10:
            asks(script, 2, 16 + 10 * step, loader=2, wait_ms=2)
    loop = read(script)["100:1"]
    assert loop.role == "train"
    assert sum(loop.table.wall_s) > 0.38


def test_an_evaluation_takes_no_time_while_training_batches_come(script: Script) -> None:
    opens(script, 2, 0, loader=2)
    opens(script, 1, 1)
    for step in range(40):
        asks(script, 1, 10 + 20 * step)
        trains(script, 15 + 20 * step)
        for place in range(3 if step % 20 == 10 else 0):
            asks(script, 2, 17 + 20 * step + 2 * place, loader=2)
    evaluation = read(script)["100:2"]
    assert evaluation.role == "evaluation"
    assert evaluation.wall_s < 0.02


def test_waits_for_a_loader_beside_it_count_too(script: Script) -> None:
    opens(script, 1, 0)
    opens(script, 2, 1, loader=2)
    for step in range(4):
        asks(script, 1, 10 + 20 * step, wait_ms=2)
        asks(script, 2, 13 + 20 * step, wait_ms=5, loader=2)
        trains(script, 20 + 20 * step)
    assert read(script)["100:1"].table.wait_s == pytest.approx([0.007] * 3)


def test_wait_never_exceeds_wall(script: Script) -> None:
    opens(script, 1, 0)
    for step in range(3):
        asks(script, 1, 10 + step, wait_ms=50)
        trains(script, 10.5 + step)
    table = read(script)["100:1"].table
    assert all(wait <= wall for wait, wall in zip(table.wait_s, table.wall_s, strict=True))


def test_two_passes_over_one_loader_side_by_side_are_one_loop(script: Script) -> None:
    """``zip(loader, loader)``: a step has a batch of each, and waits for both."""
    opens(script, 1, 0)
    opens(script, 2, 1)
    for step in range(4):
        asks(script, 1, 10 + 20 * step, wait_ms=4)
        asks(script, 2, 14 + 20 * step, wait_ms=2)
        trains(script, 18 + 20 * step)
    loop = read(script)["100:1"]
    assert (loop.steps, loop.backwards) == (4, 4)
    assert loop.table.wall_s == pytest.approx([0.02, 0.02, 0.02])
    assert loop.table.wait_s == pytest.approx([0.006, 0.006, 0.006])
    assert min(loop.table.backward_s) > 0


def test_an_iterator_kept_aside_does_not_tear_the_loop_apart(script: Script) -> None:
    """One iterator gives a sample per epoch; the epochs, one after another, are the loop."""
    opens(script, 9, 0)
    for epoch in range(3):
        begin = 100 * epoch
        opens(script, 1 + epoch, begin + 5)
        for step in range(3):
            asks(script, 1 + epoch, begin + 10 + 20 * step, wait_ms=4)
            trains(script, begin + 18 + 20 * step)
        ends(script, 1 + epoch, begin + 75)
        asks(script, 9, begin + 80)
        trains(script, begin + 85)
    loop = read(script)["100:1"]
    assert (loop.steps, loop.epochs.batches) == (9, [3, 3, 3])
    assert min(loop.table.wall_s) == pytest.approx(0.02)
