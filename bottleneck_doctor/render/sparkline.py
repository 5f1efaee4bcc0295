"""A row of small bars: how a number went in the last minutes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], columns: int, top: float | None = None) -> str:
    """The newest at the right, each column the mean of as many values as it takes; a blank where nothing
    was measured. The tallest bar is ``top``, or the largest of them."""
    if columns < 1 or not values:
        return ""
    every = -(-len(values) // columns)
    begin = len(values) % every
    groups = [values[:begin], *(values[at : at + every] for at in range(begin, len(values), every))]
    means = [_mean(group) for group in groups if group]
    highest = max((mean for mean in means if mean is not None), default=0.0) if top is None else top
    return "".join(_bar(mean, highest) for mean in means)[-columns:]


def can_draw(encoding: str) -> bool:
    """Whether the bars can be said in this encoding."""
    try:
        BARS.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _mean(group: Sequence[float | None]) -> float | None:
    known = [value for value in group if value is not None]
    return fmean(known) if known else None


def _bar(value: float | None, highest: float) -> str:
    if value is None:
        return " "
    share = value / highest if highest > 0 else 0.0
    return BARS[min(len(BARS) - 1, max(0, int(share * len(BARS))))]
