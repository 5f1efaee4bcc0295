"""The answers about a fleet as drawn."""

import pytest

from bottleneck_doctor.model.report import Fleet, Hours, RefusedFile, Saving, Slowed, Totals, Wasted
from bottleneck_doctor.render.fleet import render_fleet, render_rows
from tests.render.drawn import require_golden
from tests.render.hostile import ATTACKS, attacked

FLEET = Fleet(
    Totals(1200, 40, 12, "2026-10-22 08:00:00", "2026-11-26 07:00:00", Hours(5000, 800), Hours(1250, 200),
           700, 300, 150, 50, 3),
    [Wasted("input.preprocess", 500, Hours(3000, 500), Hours(1000, 180))],
    [Wasted("input.preprocess", 60, Hours(900, 0), Hours(300, 0), "train.py --lr 0.1")],
    [Saving("workers-auto", "workers-too-few", 400, Hours(900, 150), 20)],
    "2026-11-19 07:00:00", 30,
    [Slowed("train.py --lr 0.1", "EPYC · 8 cores", 0.1, 0.115, 0.15, 0.08, 12, 5)],
    2,
    [RefusedFile("runs/a.json", "not readable as JSON")],
)  # fmt: skip


def test_all_answers_stand_on_one_screen() -> None:
    require_golden("fleet-100.txt", render_fleet(FLEET, "terminal", width=100))


def test_without_gpus_nothing_is_said_of_them() -> None:
    drawn = render_fleet(Fleet(Totals(taken=Hours(3, 0))), "terminal")
    assert "GPU" not in drawn
    assert "slower since ?  none of 0 jobs compared" in drawn


@pytest.mark.parametrize("format", ["terminal", "json"])
def test_names_are_harmless(format: str) -> None:
    for attack in ATTACKS.values():
        drawn = render_fleet(attacked(FLEET, attack), format, width=60)
        drawn.encode()
        assert "\x1b" not in drawn


def test_rows_of_a_query_are_drawn_like_any_other() -> None:
    assert (
        render_rows(["a", "n"], [("x\x1b", 1), (None, 23)], "terminal")
        == "  a      n\n  x\\x1b  1\n         23\n2 rows\n"
    )
