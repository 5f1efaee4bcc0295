"""What a person sees: one screen, any width, any encoding, whatever is in the names."""

import re
import unicodedata
from typing import Any

import pytest
from rich.cells import cell_len

from bottleneck_doctor.model.report import Report
from bottleneck_doctor.render import render
from tests.render.drawn import require_golden
from tests.render.hostile import ATTACKS, attacked
from tests.render.reports import CRASHED, HEALTHY, INCONCLUSIVE, PHASED, TYPICAL, WATCHED

EVERY_REPORT = {
    "typical": TYPICAL,
    "phased": PHASED,
    "inconclusive": INCONCLUSIVE,
    "healthy": HEALTHY,
    "watched": WATCHED,
    "crashed": CRASHED,
}
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize(
    ("name", "how"),
    [
        *((f"{name}-80", {}) for name in EVERY_REPORT),
        ("watched-40", {"width": 40}),
        ("crashed-60", {"width": 60, "color": True}),
        ("details-80", {"details": True}),
        ("typical-ascii", {"encoding": "ascii"}),
        ("typical-colours", {"color": True}),
    ],
)
def test_a_report_is_drawn_as_accepted(name: str, how: dict[str, Any]) -> None:
    report = EVERY_REPORT.get(name.partition("-")[0], WATCHED)
    require_golden(f"{name}.txt", render(report, "terminal", **{"width": 80, **how}))


@pytest.mark.parametrize("report", [*EVERY_REPORT.values(), attacked(TYPICAL, ATTACKS["wide"])])
def test_no_line_is_wider_than_the_screen(report: Report) -> None:
    for width in (20, 59, 300):
        drawn = render(report, "terminal", width=width)
        assert max(map(cell_len, drawn.splitlines())) <= min(width, 100)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_everything_drawn_can_be_said_in_the_encoding(encoding: str) -> None:
    for attack in ("wide", "surrogate", "bidi"):
        drawn = render(attacked(TYPICAL, ATTACKS[attack]), "terminal", encoding=encoding)
        assert drawn.encode(encoding).decode(encoding) == drawn


def test_nothing_foreign_reaches_the_terminal_as_a_command_and_colours_are_our_own() -> None:
    ours = set(COLOUR.findall(render(WATCHED, "terminal", color=True)))
    for attack in ATTACKS.values():
        coloured = render(attacked(WATCHED, attack), "terminal", width=100, color=True)
        assert set(COLOUR.findall(coloured)) <= ours
        for drawn in (COLOUR.sub("", coloured), render(attacked(WATCHED, attack), "terminal", width=100)):
            kinds = {unicodedata.category(sign) for sign in drawn if sign != "\n"}
            assert not {"Cc", "Cf", "Cs"} & kinds
