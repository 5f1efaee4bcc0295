"""The noise model of the gate: how sure a change between two sets of repeats of one job is.

Runs of one unchanged job differ by more than their own intervals say: other processes, caches, clocks,
where memory came to lie. That noise between runs shows only in repeats, and a few repeats tell it badly: two
that agree by luck would promise a precision that is not there. So what the repeats show is weighed with a
belief from before (``BELIEVED``, worth ``BELIEVED_WORTH`` runs), as in the moderated t of Smyth (2004).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# Of the standard deviation of log step times between runs: what unchanged jobs showed on a machine that had
# nothing else to do, rounded up (docs/ci.md, measured by `python -m tests.bench.repeats`).
BELIEVED = 0.02
BELIEVED_WORTH = 4.0
# One-sided 95 %: the lower end of a 90 % interval, and the power that "would be seen" promises.
NORMAL_95 = 1.6449
MOST_REPEATS = 20


@dataclass(frozen=True)
class Measured:
    """One run: its value, and how far within-run noise alone may have moved it, as a share of the value."""

    value: float
    error: float


@dataclass(frozen=True)
class MeasuredChange:
    """From ``base`` to ``new``; ``change`` is new / base - 1 with its 90 % interval.

    ``noise``: the standard deviation between runs, as a share; ``spread`` that of the change itself, in
    logarithms, with ``freedom`` degrees.
    """

    base: float
    new: float
    change: float
    low: float
    high: float
    noise: float
    spread: float
    freedom: float


def change_between(base: Sequence[Measured], new: Sequence[Measured]) -> MeasuredChange:
    """The change of the geometric mean from one side to the other; each side has at least one run.

    A run counts by how sure it is of itself: a disturbed one neither moves the mean nor hides a change.
    """
    assert base and new and all(run.value > 0 for run in (*base, *new))
    noise, freedom = _between(base, new)
    (before, unsure), (after, unsure_too) = (_mean(side, noise) for side in (base, new))
    moved, spread = after - before, math.sqrt(unsure + unsure_too)
    reach = quantile_95(freedom) * spread
    change, low, high = (math.expm1(end) for end in (moved, moved - reach, moved + reach))
    return MeasuredChange(math.exp(before), math.exp(after), change, low, high, noise, spread, freedom)


def would_see(spread: float, freedom: float, limit: float) -> float:
    """The smallest true change that is beyond ``limit`` in 95 of 100 tries, given the noise of a change."""
    return math.expm1(math.log1p(limit) + 2 * quantile_95(freedom) * spread)


def repeats_to_see(
    wanted: float, limit: float, base: Sequence[Measured], new: Sequence[Measured]
) -> int | None:
    """How many runs a side would show a true change of ``wanted``; None when ``MOST_REPEATS`` would not."""
    noise = change_between(base, new).noise
    both = sum(_mean(side, noise)[1] * len(side) for side in (base, new))
    for count in range(1, MOST_REPEATS + 1):
        freedom = BELIEVED_WORTH + 2 * (count - 1)
        if would_see(math.sqrt(both / count), freedom, limit) <= wanted:
            return count
    return None


def quantile_95(freedom: float) -> float:
    """The 95 % quantile of Student's t by its expansion about the normal; good to 0.003 from 4 degrees on."""
    z = NORMAL_95
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / freedom ** (place + 1) for place, term in enumerate(terms))


def _between(base: Sequence[Measured], new: Sequence[Measured]) -> tuple[float, float]:
    """The noise between runs beside the one within them, and the degrees of freedom of that estimate.

    By moments, as DerSimonian and Laird (1986) do for studies that are not equally sure of themselves.
    """
    shown = room = 0.0
    for side in (base, new):
        weights = [1 / (BELIEVED**2 + run.error**2) for run in side]
        whole, mean = sum(weights), _weighted(side, weights)
        squares = sum(w * (math.log(run.value) - mean) ** 2 for w, run in zip(weights, side, strict=True))
        explained = sum(w * (1 - w / whole) * run.error**2 for w, run in zip(weights, side, strict=True))
        shown += squares - explained
        room += whole - sum(w * w for w in weights) / whole
    freedom = len(base) + len(new) - 2
    variance = max(0.0, shown) / room if freedom else 0.0
    total = BELIEVED_WORTH + freedom
    return math.sqrt((BELIEVED_WORTH * BELIEVED**2 + freedom * variance) / total), total


def _mean(side: Sequence[Measured], noise: float) -> tuple[float, float]:
    """The mean of a side's logarithms and the variance of that mean."""
    weights = [1 / (noise**2 + run.error**2) for run in side]
    return _weighted(side, weights), 1 / sum(weights)


def _weighted(side: Sequence[Measured], weights: list[float]) -> float:
    return sum(w * math.log(run.value) for w, run in zip(weights, side, strict=True)) / sum(weights)
