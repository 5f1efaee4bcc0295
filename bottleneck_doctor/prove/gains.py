"""Each arm's speedup over the baselines run around it, its 90 % interval, and the verdict on it.

An arm is held against the baselines before and after it in time, not against the mean of all of them: a
machine that slows down for minutes (neighbours, heat) slows an arm and its neighbours alike. Simulated with
3 % of noise between runs, this makes intervals 7 % wider where nothing drifts, and a fifth narrower where
each run is 2 % slower than the last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean

from ..analyse.gate import BELIEVED as GATE_NOISE
from ..analyse.gate import BELIEVED_WORTH, quantile_95
from ..model.proof import BASELINE, Attempt, Gain

# Of the standard deviation of log step times between short runs, before any was repeated: the median of the
# 16 proofs in tests/golden/proving is 0.036.
BELIEVED = 0.04
CONTRAST_WORTH = 2 / 3  # of a degree of freedom: such contrasts share their runs with each other
KEPT = 1 + GATE_NOISE  # a smaller gain would not be seen by the gate, however sure it is here
NO_MATTER = 1.05  # an interval within this and its inverse: what gains less limits nothing [contract, 5 %]
EXACT = 1.07  # times and divided by which the interval of a gain is good enough to be quoted (chosen)
# Times the interval must be clear of 1 for an early end, since looking often means erring often: of 1,000
# simulated remedies that bring nothing (tests/prove/test_gains.py) a tenth at most is called kept or worse.
EARLY = 1.5


@dataclass(frozen=True)
class RunSample:
    """One run that was measured: the logarithm of its seconds per step, and that value's own error."""

    arm: str
    log_s: float
    error: float


Weights = list[float]  # one for each reading: what an estimate is the sum of


def readings(attempts: Sequence[Attempt], scope: str = "step") -> list[RunSample]:
    """The measured runs in order. ``scope`` "run" counts what lies between steps, too.

    Time lost to other programs on the machine is left out where it is known of every run, as the gate does.
    """
    measured = [one for one in attempts if one.outcome == "measured" and one.step_s]
    fair = is_fair(attempts)
    return [_reading(one, scope, fair) for one in measured]


def is_fair(attempts: Sequence[Attempt]) -> bool:
    """Whether other programs' part of the steps is known of all runs."""
    return all(one.fair_s for one in attempts if one.outcome == "measured")


def _reading(one: Attempt, scope: str, fair: bool) -> RunSample:
    assert one.step_s
    step_s, error = (one.fair_s, one.fair_error) if fair and one.fair_s else (one.step_s, one.error)
    between_s = (one.whole_s or one.step_s) - one.step_s if scope == "run" else 0.0
    return RunSample(one.arm, math.log(step_s + max(0.0, between_s)), error)


def gain_of(arm: str, seen: Sequence[RunSample]) -> Gain | None:
    """The speedup with its 90 % interval; None before the arm and a baseline were measured."""
    places = [place for place, one in enumerate(seen) if one.arm == arm]
    contrasts = [found for place in places if (found := _against_baseline(place, seen))]
    if not contrasts:
        return None
    mean = [fmean(column) for column in zip(*contrasts, strict=True)]
    noise, freedom = noise_of(seen)
    likely = _value(mean, seen)
    reach = quantile_95(freedom) * math.sqrt(_variance(mean, seen, noise))
    low, high = (math.exp(end) for end in (likely - reach, likely + reach))
    return Gain(math.exp(likely), low, high, len(contrasts))


def verdict(gain: Gain) -> str:
    """kept, worse, no gain or undecided, by the interval."""
    if gain.low > 1 and gain.likely >= KEPT:
        return "kept"
    if gain.high < 1 and gain.likely <= 1 / KEPT:
        return "worse"
    if gain.low >= 1 / NO_MATTER and gain.high <= NO_MATTER:
        return "no gain"
    return "undecided"


def is_settled(gain: Gain) -> bool:
    """Whether a difference is so clear that no further run is needed."""
    low, high = (gain.likely * (end / gain.likely) ** EARLY for end in (gain.low, gain.high))
    return verdict(gain) == "no gain" or verdict(replace(gain, low=low, high=high)) != "undecided"


def is_exact(gain: Gain) -> bool:
    """Whether more runs would change little: there is no gain, or its interval is narrow."""
    return verdict(gain) not in ("kept", "worse") or gain.high / gain.low <= EXACT**2


def noise_of(seen: Sequence[RunSample]) -> tuple[float, float]:
    """The standard deviation between runs, and its degrees of freedom: what repeats show, pooled over all
    arms and weighed with the prior."""
    shown = freedom = 0.0
    for contrast in _empty_contrasts(seen):
        size = sum(weight**2 for weight in contrast)
        within = _variance(contrast, seen, 0.0)
        shown += CONTRAST_WORTH * (_value(contrast, seen) ** 2 - within) / size
        freedom += CONTRAST_WORTH
    total = BELIEVED_WORTH + freedom
    return math.sqrt((BELIEVED_WORTH * BELIEVED**2 + max(0.0, shown)) / total), total


def _empty_contrasts(seen: Sequence[RunSample]) -> Iterator[Weights]:
    """Sums of readings that would be zero without noise: neighbouring baselines, and repeats of one arm."""
    for arm in dict.fromkeys(one.arm for one in seen):
        places = [place for place, one in enumerate(seen) if one.arm == arm]
        if arm == BASELINE:
            repeats = [_weights(seen, {place: 1.0}) for place in places]
        else:
            repeats = [found for place in places if (found := _against_baseline(place, seen))]
        for before, after in pairwise(repeats):
            yield [b - a for a, b in zip(after, before, strict=True)]


def _against_baseline(place: int, seen: Sequence[RunSample]) -> Weights:
    """Baseline less this run, the baseline on the line between those before and after; empty without."""
    bases = [at for at, one in enumerate(seen) if one.arm == BASELINE]
    before = max((at for at in bases if at < place), default=None)
    after = min((at for at in bases if at > place), default=None)
    if before is None or after is None:
        nearest = after if before is None else before
        return [] if nearest is None else _weights(seen, {place: -1.0, nearest: 1.0})
    share = (place - before) / (after - before)
    return _weights(seen, {place: -1.0, before: 1 - share, after: share})


def _weights(seen: Sequence[RunSample], known: dict[int, float]) -> Weights:
    return [known.get(place, 0.0) for place in range(len(seen))]


def _value(weights: Weights, seen: Sequence[RunSample]) -> float:
    return sum(weight * one.log_s for weight, one in zip(weights, seen, strict=True))


def _variance(weights: Weights, seen: Sequence[RunSample], noise: float) -> float:
    return sum(w**2 * (noise**2 + one.error**2) for w, one in zip(weights, seen, strict=True))
