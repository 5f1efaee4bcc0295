"""Loops and their steps: every millisecond belongs to one step, and evaluation to none."""

from random import Random

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.device import _look
from bottleneck_doctor.assemble.loaders import Iteration, SampledArrival, read_iterations
from bottleneck_doctor.assemble.loop_without_loader import read_outside
from bottleneck_doctor.assemble.rows import TYPES, Row
from bottleneck_doctor.assemble.steps import ROWS_AT_MOST, read_loops
from bottleneck_doctor.model.loops import Loop
from tests.assemble.logs import MS, PID, Script, asks, ends, log, opens, row, trains

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


def test_an_evaluation_iterator_kept_open_takes_only_its_own_time(script: Script) -> None:
    opens(script, 2, 0, loader=2)
    opens(script, 1, 1)
    for step in range(40):
        asks(script, 1, 10 + 20 * step)
        trains(script, 15 + 20 * step)
        for place in range(3 if step % 20 == 10 else 0):
            asks(script, 2, 17 + 20 * step + 2 * place, loader=2)
    loops = read(script)
    training, evaluation = loops["100:1"], loops["100:2"]
    assert (training.role, evaluation.role) == ("train", "evaluation")
    assert sum(training.table.wall_s) > 0.76
    assert evaluation.wall_s < 0.02


def test_steps_that_nobody_looked_at_belong_to_the_loader_that_gave_their_batches(script: Script) -> None:
    """An evaluation's single batch is looked at, and few of the 20 steps between two of them."""
    opens(script, 2, 0, loader=2)
    opens(script, 1, 1)
    for place in range(12):
        begin = 10 + 100 * place
        asks(script, 1, begin, skipped=18 if place else 0)
        trains(script, begin + 2)
        asks(script, 2, begin + 4, loader=2)
        trains(script, begin + 80, steps=18)
    found = read_arrivals(script)
    assert [found[n].role for n in (1, 2)] == ["train", "evaluation"]


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


def read_arrivals(script: Script) -> dict[int, Iteration]:
    return {one.number: one for one in read_iterations(log(script.rows), NUMBERING)}


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
    found = read_arrivals(script)
    assert (found[1].role, found[1].backwards) == ("train", 4)
    assert (found[2].role, found[2].backwards) == ("evaluation", 0)


def test_an_iterator_belongs_to_the_thread_that_asks_it_and_prefetches_where_that_never_trains(
    script: Script,
) -> None:
    opens(script, 1, 0, thread=0)
    for step in range(3):
        asks(script, 1, 10 + 10 * step, thread=3)
        trains(script, 15 + 10 * step, thread=0)
    one = read_arrivals(script)[1]
    assert (one.thread, one.role) == (3, "prefetch")


def test_where_nothing_is_differentiated_the_largest_loader_is_the_loop(script: Script) -> None:
    opens(script, 1, 0)
    asks(script, 1, 10)
    opens(script, 2, 20, loader=2)
    for step in range(3):
        asks(script, 2, 30 + step, loader=2)
    found = read_arrivals(script)
    assert [found[n].role for n in (1, 2)] == ["evaluation", "train"]


EVERY = 10  # step is looked at
COUNT = 2_000


def looked_at(gaps: list[float], own: list[float], evaluations: dict[int, float]) -> list[Row]:
    """Rows of a loop whose gaps sleep, in ms, and whose own work is CPU, as are evaluations behind some."""
    rows, t, cpu = [], 0.0, 0.0
    for number, (gap, work) in enumerate(zip(gaps, own, strict=True), start=1):
        if number % EVERY == 1:
            rows.append(row(wire.STEP, t, 0, number - 1, round(cpu * MS), 0))
            rows.append(row(wire.FORWARD, t, gap, number - 1, 0, 0))
        t += gap + work + evaluations.get(number, 0.0)
        cpu += work + evaluations.get(number, 0.0)
        if number % EVERY == 1:
            rows.append(row(wire.NEXT_STEP, t, 0, number, round(cpu * MS)))
    return rows


def share(gaps: list[float], own: list[float], evaluations: dict[int, float] | None = None) -> float:
    table = read_outside(log(looked_at(gaps, own, evaluations or {})), [], 0)[0].table
    timed = [gap for gap in table.gap_s if gap is not None]
    return sum(timed) / sum(table.wall_s)


def test_a_stall_that_no_look_met_is_in_the_gap() -> None:
    """One step of fifty waits half a second. What the looks met of that, taken for all steps, is far off."""
    draw = Random(18)
    gaps = [500.0 if draw.random() < 0.02 else draw.uniform(0.5, 1.5) for _ in range(COUNT)]
    own = [draw.uniform(4.0, 6.0) for _ in range(COUNT)]
    assert abs(sum(gaps[::EVERY]) * EVERY / sum(gaps) - 1) > 0.15, "this draw tests nothing"
    assert share(gaps, own) == pytest.approx(sum(gaps) / (sum(gaps) + sum(own)), abs=0.01)


def test_what_no_look_met_and_was_no_wait_is_not_in_the_gap() -> None:
    """An evaluation of half a second behind every hundredth step."""
    draw = Random(6)
    gaps = [draw.uniform(0.5, 1.5) for _ in range(COUNT)]
    own = [draw.uniform(4.0, 6.0) for _ in range(COUNT)]
    evaluations = dict.fromkeys(range(100, COUNT, 100), 500.0)
    whole = sum(gaps) + sum(own) + sum(evaluations.values())
    assert share(gaps, own, evaluations) == pytest.approx(sum(gaps) / whole, abs=0.01)


def test_steps_that_a_look_made_longer_are_not_taken_for_all() -> None:
    """The look takes 3 ms, and lets all that follows in its step compute a tenth longer."""
    draw, rows, t = Random(8), [], 0.0
    for number in range(COUNT):
        longer = 1.1 if number % EVERY == 0 else 1.0
        gap, work = (draw.uniform(0.9, 1.1) * longer * base for base in (2.0, 4.0))
        if number % EVERY == 0:
            rows.append(row(wire.STEP, t, 0, number, round(t * MS), 0))
            rows.append(row(wire.SAMPLING, t, 3.0))
            rows.append(row(wire.FORWARD, t + 3.0, gap, number, round(gap * MS), 0))
            t += 3.0
        t += gap + work
        if number % EVERY == 0:
            rows.append(row(wire.NEXT_STEP, t, 0, number + 1, round(t * MS)))
    table = read_outside(log(rows), [], 0)[0].table
    timed = [gap for gap in table.gap_s if gap is not None]
    assert sum(timed) / sum(table.wall_s) == pytest.approx(1 / 3, abs=0.005)
    assert sum(table.wall_s) / sum(table.steps) == pytest.approx(0.00606, rel=0.02)


def test_a_loop_without_a_loader_stays_bounded_and_keeps_its_sums() -> None:
    count = 3 * ROWS_AT_MOST
    rows = [row(wire.STEP, 10 * n, 0, n, n * MS, 2 * n * MS) for n in range(1, count + 1)]
    rows += [row(wire.FORWARD, 10 * n + 1, 2, n, MS, 0) for n in range(1, count + 1)]
    (loop,) = read_outside(log(rows), [], 0)
    table = loop.table
    assert len(table.t) <= ROWS_AT_MOST
    assert {len(column) for column in vars(table).values()} == {len(table.t)}
    assert sum(table.steps) == loop.steps == count - 1
    assert sum(table.wall_s) == pytest.approx(0.01 * (count - 1))
    assert sum(table.gap_s) == pytest.approx(0.002 * (count - 1))
    assert sum(table.cpu_s) == pytest.approx(0.001 * (count - 1))
    assert table.t[-1] == pytest.approx(0.01 * count)


@pytest.mark.parametrize(("read", "left"), [(4000, 3800), (150, 0)])
def test_what_the_agent_takes_before_the_loop_waits_is_no_idleness(read: int, left: int) -> None:
    ours, waited = 200, 6000
    row = TYPES[wire.DEVICE_STEP]((1000, 9000, read, 9500, 0, 0, 0, 1, 0, wire.DEVICE_STEP))
    asked = TYPES[wire.NEXT]((1000 + ours, waited, 1, 0, waited, 0, 0, 1, 0, wire.NEXT))
    look = _look(row, Iteration(1, "loader", 0, 0), 0, SampledArrival(asked, asked))
    assert (look.wait, look.wall) == (left, 9500 - (read - left))
    assert look.host_wait == waited
