"""Estimates what a part of the step took in steps that nobody looked at, from what these took as a whole.

A regression estimator: looked-at steps tell how a part and the step vary together, the clock tells what all
steps took. A part that comes in every fourth step alone, such as an exchange behind accumulation, is met by
looks too often or too seldom; how long the steps between them took says how often it was there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean

BEYOND = 3.0  # standard errors: steps that took longer than this held what no look has met (ours)
ENOUGH = 8  # looked-at steps that tell how a part and the step vary together (ours)


@dataclass(frozen=True)
class Line:
    """How a part is estimated from the step: both means, and how much of what a step takes beyond its mean is
    that part. A slope of 0 says that steps tell nothing of it."""

    part: float = 0.0
    step: float = 0.0
    slope: float = 0.0

    @classmethod
    def of(cls, parts: Sequence[float], steps: Sequence[float], rest: float, count: int) -> Line:
        """From looked-at steps, for ``count`` others that took ``rest`` together, in the same unit."""
        part, step = fmean(parts), fmean(steps)
        spread = sum((one - step) ** 2 for one in steps)
        if len(steps) < ENOUGH or not spread or not count:
            return cls(part, step)
        error = sqrt(spread / (len(steps) - 1) * count * (1 + count / len(steps)))
        if rest - count * step > BEYOND * error:
            return cls(part, step)
        if count * step - rest > BEYOND * error:  # a look empties caches, which lengthens all that follows
            return cls(part * rest / (count * step), rest / count)
        together = sum((one - part) * (other - step) for one, other in zip(parts, steps, strict=True))
        return cls(part, step, min(1.0, max(0.0, together / spread)))

    def estimate(self, rest: float, count: int) -> float:
        """The part's time in ``count`` steps that took ``rest`` together."""
        found = count * self.part + self.slope * (rest - count * self.step)
        return min(rest, max(0.0, found))


def estimate_rows(
    column: list[float] | list[float | None], own: list[float], steps: list[int], counted: Iterable[int]
) -> None:
    """Estimate a part in the rows of several steps, of which one was looked at, by what these took as a whole
    (``own``). Where that tells nothing of the part, all of them are taken to be like the one."""
    places = list(counted)
    single = [place for place in places if steps[place] == 1]
    several = [place for place in places if steps[place] > 1]
    if not single or not several:
        return
    rest, count = sum(own[place] for place in several), sum(steps[place] for place in several)
    parts = [column[place] or 0.0 for place in single]
    line = Line.of(parts, [own[place] for place in single], rest, count)
    for place in several if line.slope else ():
        column[place] = line.estimate(max(0.0, own[place]), steps[place])
