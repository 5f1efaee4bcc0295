"""What a person sees: one screen, any width, any encoding, whatever is in the names."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace

import pytest
from rich.cells import cell_len

from bottleneck_doctor.model.report import Report
from bottleneck_doctor.render import render
from tests.render.drawn import require_golden
from tests.render.hostile import ATTACKS, attacked
from tests.render.reports import HEALTHY, INCONCLUSIVE, PHASED, TYPICAL, WATCHED

EVERY_REPORT = {
    "typical": TYPICAL,
    "phased": PHASED,
    "inconclusive": INCONCLUSIVE,
    "healthy": HEALTHY,
    "watched": WATCHED,
}
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize(("name", "width"), [*((name, 80) for name in EVERY_REPORT), ("watched", 40)])
def test_a_report_is_drawn_as_accepted(name: str, width: int) -> None:
    require_golden(f"{name}-{width}.txt", render(EVERY_REPORT[name], "terminal", width=width))


def test_a_report_with_all_details_is_drawn_as_accepted() -> None:
    require_golden("details-80.txt", render(WATCHED, "terminal", width=80, details=True))


def test_details_leave_nothing_out() -> None:
    drawn = render(WATCHED, "terminal", width=100, details=True)
    assert "more:" not in drawn
    assert [name for name in WATCHED.metrics if name not in drawn] == []
    assert [gap.why for gap in WATCHED.quality.gaps if gap.why not in drawn] == []


def test_a_report_in_ascii_is_drawn_as_accepted() -> None:
    require_golden("typical-ascii.txt", render(TYPICAL, "terminal", width=80, encoding="ascii"))


def test_a_report_in_colours_is_drawn_as_accepted() -> None:
    require_golden("typical-colours.txt", render(TYPICAL, "terminal", width=80, color=True))


def test_colours_change_nothing_but_the_colour() -> None:
    coloured = render(TYPICAL, "terminal", width=80, color=True)
    bare = "\n".join(line.rstrip() for line in COLOUR.sub("", coloured).splitlines()) + "\n"
    assert bare == render(TYPICAL, "terminal", width=80)


def test_a_typical_report_fits_one_screen() -> None:
    assert len(render(TYPICAL, "terminal", width=80).splitlines()) <= 42


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


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_foreign_reaches_the_terminal_as_a_command(attack: str) -> None:
    drawn = render(attacked(WATCHED, ATTACKS[attack]), "terminal", width=100)
    assert not [sign for sign in drawn if unicodedata.category(sign) in ("Cc", "Cf", "Cs") and sign != "\n"]


@pytest.mark.parametrize("attack", ATTACKS)
def test_colours_are_only_our_own(attack: str) -> None:
    drawn = render(attacked(WATCHED, ATTACKS[attack]), "terminal", width=100, color=True)
    assert "\x1b" not in COLOUR.sub("", drawn)
    assert set(COLOUR.findall(drawn)) <= set(COLOUR.findall(render(WATCHED, "terminal", color=True)))


def test_markup_of_rich_is_shown_as_it_stands() -> None:
    drawn = render(attacked(TYPICAL, ATTACKS["rich"]), "terminal", width=100)
    assert "[bold red]a[/bold red] [link=file:///etc]b[/link] :boom:" in drawn


def test_an_attack_on_lines_adds_no_lines() -> None:
    report = replace(TYPICAL, remedies=[])  # snippets have lines of their own
    harmless, attack = attacked(report, "a # heading"), attacked(report, "a\n# heading")
    assert render(attack, "terminal").count("\n") == render(harmless, "terminal").count("\n")


def test_the_users_settings_do_not_change_what_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    before = render(TYPICAL, "terminal", width=80, color=True)
    for name, value in {"NO_COLOR": "1", "COLUMNS": "33", "TERM": "dumb", "FORCE_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    assert render(TYPICAL, "terminal", width=80, color=True) == before


def test_a_remedy_that_would_hurt_is_a_warning_and_no_advice() -> None:
    drawn = render(TYPICAL, "terminal", width=100)
    assert "would hurt: Raise batch_size  ×0.8" in drawn
    assert not re.search(r"\d\. Raise batch_size", drawn)
