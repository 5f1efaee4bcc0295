"""The noise model of the gate: how sure a change between two sets of repeats of one job is.

Runs of one unchanged job differ by more than their own intervals say: other processes, caches, clocks,
where memory came to lie. That noise between runs shows only in repeats, and a few repeats tell it badly: two
that agree by luck would promise a precision that is not there. So what the repeats show is weighed with a
belief from before (``BELIEVED``, worth ``BELIEVED_WORTH`` runs), as in the moderated t of Smyth (2004).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# Of the standard deviation of log step times between runs: what unchanged jobs showed on a machine that had
# nothing else to do, rounded up (docs/ci.md, measured by `python -m tests.bench.repeats`).
BELIEVED = 0.03
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
class Change:
    """New over base - 1 with its 90 % interval. ``noise``: the standard deviation between runs, as a share;
    ``spread`` that of the change itself, in logarithms, with ``freedom`` degrees."""

    change: float
    low: float
    high: float
    noise: float
    spread: float
    freedom: float


def change_between(base: Sequence[Measured], new: Sequence[Measured]) -> Change:
    """The change of the geometric mean from one side to the other; each side has at least one run."""
    assert base and new and all(run.value > 0 for run in (*base, *new))
    sides = [[math.log(run.value) for run in side] for side in (base, new)]
    means = [statistics.fmean(logs) for logs in sides]
    noise, freedom = _between(base, new, sides)
    spread = math.sqrt(sum((noise**2 + _within(side)) / len(side) for side in (base, new)))
    moved, reach = means[1] - means[0], quantile_95(freedom) * spread
    return Change(
        math.expm1(moved), math.expm1(moved - reach), math.expm1(moved + reach), noise, spread, freedom
    )


def would_see(change: Change, limit: float) -> float:
    """The smallest true change whose lower end is beyond ``limit`` in 95 of 100 tries, with this noise."""
    return math.expm1(math.log1p(limit) + 2 * quantile_95(change.freedom) * change.spread)


def repeats_to_see(
    wanted: float, limit: float, base: Sequence[Measured], new: Sequence[Measured]
) -> int | None:
    """How many runs a side would show a true change of ``wanted``; None when ``MOST_REPEATS`` would not."""
    now = change_between(base, new)
    each = now.noise**2 + (_within(base) + _within(new)) / 2
    for count in range(1, MOST_REPEATS + 1):
        freedom = BELIEVED_WORTH + 2 * (count - 1)
        planned = Change(0.0, 0.0, 0.0, now.noise, math.sqrt(2 * each / count), freedom)
        if would_see(planned, limit) <= wanted:
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


def _between(
    base: Sequence[Measured], new: Sequence[Measured], sides: list[list[float]]
) -> tuple[float, float]:
    """The noise between runs beside the one within them, and the degrees of freedom of that estimate."""
    squares = sum((log - statistics.fmean(logs)) ** 2 for logs in sides for log in logs)
    freedom = sum(len(logs) - 1 for logs in sides)
    # What scatter the runs' own errors explain already; both sides weigh by how many runs speak for them.
    explained = sum((len(side) - 1) * _within(side) for side in (base, new))
    shown = max(0.0, squares - explained)
    total = BELIEVED_WORTH + freedom
    return math.sqrt((BELIEVED_WORTH * BELIEVED**2 + shown) / total), total


def _within(side: Sequence[Measured]) -> float:
    """The mean variance within the runs of a side."""
    return statistics.fmean(run.error**2 for run in side)
