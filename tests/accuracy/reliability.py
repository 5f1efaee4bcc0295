"""How far promises hold: predicted against measured, by basis and by size, as tables and as a drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log
from statistics import median

from tests.lab.judge import Judgement
from tests.lab.table import BASES, middle_and_most

SIZES = (1.0, 1.3, 2.0, 4.0, float("inf"))
COVERED = 0.9  # what an interval promises
WIDTHS = tuple(0.1 * step for step in range(41))  # of the interval as it is, tried when one pair is left out
SIDE, MARGIN, MOST = 520, 46, 64.0
TICKS = (1, 2, 4, 8, 16, 32, 64)
COLOURS = {"replay": "#2563eb", "amdahl": "#d97706", "bound": "#9ca3af"}


@dataclass(frozen=True)
class Promise:
    """A promise and what came of it; of a bound ``likely`` is the bound itself, and there is no ``low``."""

    name: str
    basis: str
    low: float
    likely: float
    high: float
    measured: float

    @property
    def off(self) -> float:
        """The logarithm of promised over measured."""
        return log(self.likely / self.measured)

    def inside(self, width: float = 1.0) -> bool:
        """Whether the interval, so many times as wide about its likely value, holds what was measured."""
        below, above = log(self.likely / self.low), log(self.high / self.likely)
        return -width * below <= -self.off <= width * above


def pairs_of(judgements: Sequence[Judgement]) -> list[Promise]:
    """Every promise of a twin that was measured."""
    found = []
    for one in judgements:
        if one.measured and one.predicted is not None:
            found.append(Promise(one.name, one.basis, *one.predicted, one.measured))
        elif one.measured and one.most is not None:
            found.append(Promise(one.name, "bound", 1.0, one.most, one.most, one.measured))
    return found


def page(pairs: Sequence[Promise], drawing: str, settings: Mapping[str, Sequence[Promise]]) -> str:
    """The section of the accuracy page; ``drawing`` is where it finds the picture, ``settings`` what was
    promised on other machines, by their names."""
    numbers = [one for one in pairs if one.basis != "bound"]
    lines = [
        "## Promised against measured",
        "",
        f"![Promised against measured speedups, one point a twin]({drawing})",
        "",
        "On the line, a promise holds exactly; grey points are upper bounds, which hold on it or below it.",
        "",
        "| by | twins | off by (median) | off by (90th percentile) | inside low to high |",
        "|---|---|---|---|---|",
        *(_row(basis, [one for one in numbers if one.basis == basis]) for basis in BASES[:-1]),
        _row("all numbers", numbers),
        "",
        "| promised | twins | measured over promised (median) |",
        "|---|---|---|",
        *(_size(low, high, numbers) for low, high in pairwise(SIZES)),
        "",
        left_out(numbers),
    ]
    return "\n".join([*lines, *(_elsewhere(settings) if settings else [])])


def _elsewhere(settings: Mapping[str, Sequence[Promise]]) -> list[str]:
    """The same promises on a machine with less to give."""
    numbers = {name: [one for one in pairs if one.basis != "bound"] for name, pairs in settings.items()}
    return [
        "",
        "Some of these trainings, and their twins, were also run on other machines made of this one "
        "(`python -m tests.accuracy --setting NAME`; nothing is fitted to these runs):",
        "",
        "| setting | twins | off by (median) | off by (90th percentile) | inside low to high |",
        "|---|---|---|---|---|",
        *(_row(name, pairs) for name, pairs in numbers.items()),
        _row("all of them", [one for pairs in numbers.values() for one in pairs]),
    ]


def _row(title: str, pairs: Sequence[Promise]) -> str:
    if not pairs:
        return f"| {title} | 0 | – | – | – |"
    middle, most = middle_and_most([abs(one.likely / one.measured - 1) for one in pairs])
    inside = sum(one.inside() for one in pairs)
    held = f"{inside} ({inside / len(pairs):.0%})"
    return f"| {title} | {len(pairs)} | {middle:.0%} | {most:.0%} | {held} |"


def _size(low: float, high: float, pairs: Sequence[Promise]) -> str:
    mine = [exp(-one.off) for one in pairs if low <= one.likely < high]
    title = f"×{low:g} to ×{high:g}" if high < float("inf") else f"×{low:g} and more"
    return f"| {title} | {len(mine)} | {median(mine):.2f} |" if mine else f"| {title} | 0 | – |"


def left_out(pairs: Sequence[Promise]) -> str:
    """How often an interval holds whose width was fitted without the twin that it is about."""
    if len(pairs) < 2:
        return "Too few twins to leave one out."
    held = sum(one.inside(fitted_width([other for other in pairs if other is not one])) for one in pairs)
    return (
        f"Intervals just wide enough for {COVERED:.0%} of all twins but one hold {held} of the {len(pairs)} "
        f"left out ({held / len(pairs):.0%}); for all, {fitted_width(pairs):.1f} times the present width is "
        "enough."
    )


def fitted_width(pairs: Sequence[Promise]) -> float:
    """The least width, in multiples of the present one, that holds nine tenths of them."""
    for width in WIDTHS:
        if sum(one.inside(width) for one in pairs) >= COVERED * len(pairs):
            return width
    return WIDTHS[-1]


def drawn(pairs: Sequence[Promise]) -> str:
    """The pairs as an SVG: promised to the right, measured upward, both by their logarithm."""
    marks = [_mark(one) for one in sorted(pairs, key=lambda one: BASES.index(one.basis), reverse=True)]
    grid = [
        part
        for tick in TICKS
        for part in (
            f'<path d="M{_x(tick):.0f} {_y(1):.0f}V{_y(MOST):.0f}M{_x(1):.0f} {_y(tick):.0f}H{_x(MOST):.0f}" '
            'stroke="#e5e7eb"/>',
            f'<text x="{_x(tick):.0f}" y="{_y(1) + 18:.0f}" text-anchor="middle">×{tick}</text>',
            f'<text x="{_x(1) - 6:.0f}" y="{_y(tick) + 4:.0f}" text-anchor="end">×{tick}</text>',
        )
    ]
    legend = [
        f'<circle cx="{_x(1) + 16}" cy="{MARGIN + 16 * place}" r="4" fill="{COLOURS[basis]}"/>'
        f'<text x="{_x(1) + 26}" y="{MARGIN + 16 * place + 4}">{basis}</text>'
        for place, basis in enumerate(BASES)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIDE} {SIDE}" '
            'font-family="sans-serif" font-size="11" fill="#374151">',
            '<rect width="100%" height="100%" fill="white"/>',
            *grid,
            f'<path d="M{_x(1):.0f} {_y(1):.0f}L{_x(MOST):.0f} {_y(MOST):.0f}" stroke="#6b7280"/>',
            *marks,
            *legend,
            f'<text x="{SIDE / 2:.0f}" y="{SIDE - 8}" text-anchor="middle">promised speedup</text>',
            f'<text x="12" y="{SIDE / 2:.0f}" transform="rotate(-90 12 {SIDE / 2:.0f})" '
            'text-anchor="middle">measured speedup</text>',
            "</svg>",
            "",
        ]
    )


def _mark(one: Promise) -> str:
    x, y, colour = _x(one.likely), _y(one.measured), COLOURS[one.basis]
    span = ""
    if one.basis != "bound":
        line = f"M{_x(one.low):.1f} {y:.1f}H{_x(one.high):.1f}"
        span = f'<path d="{line}" stroke="{colour}" stroke-opacity="0.35"/>'
    point = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"><title>{one.name}</title></circle>'
    return span + point


def _along(speedup: float) -> float:
    return (SIDE - 2 * MARGIN) * log(min(MOST, max(1.0, speedup))) / log(MOST)


def _x(speedup: float) -> float:
    return MARGIN + _along(speedup)


def _y(speedup: float) -> float:
    return SIDE - MARGIN - _along(speedup)
