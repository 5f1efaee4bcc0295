"""Loops without a loader: what the steps between two looks took is known, their gaps are estimated."""

from __future__ import annotations

from random import Random

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.loop_without_loader import read_outside
from bottleneck_doctor.assemble.rows import Row
from bottleneck_doctor.assemble.steps import ROWS_AT_MOST
from tests.assemble.logs import MS, log, row

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


@pytest.mark.parametrize("seed", [0, 1, 18])
def test_a_stall_that_no_look_met_is_in_the_gap(seed: int) -> None:
    """One step of fifty waits half a second. What the looks met of that, taken for all steps, is far off."""
    draw = Random(seed)
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


def test_work_that_varies_is_not_in_the_gap() -> None:
    draw = Random(7)
    gaps = [draw.uniform(1.9, 2.1) for _ in range(COUNT)]
    own = [draw.choice((1.0, 9.0)) for _ in range(COUNT)]
    assert share(gaps, own) == pytest.approx(sum(gaps) / (sum(gaps) + sum(own)), abs=0.01)


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
