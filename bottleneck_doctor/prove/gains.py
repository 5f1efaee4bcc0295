"""Each arm's speedup over the baselines run around it, its 90 % interval, and the verdict on it.

An arm is held against the baselines before and after it in time, not against the mean of all of them: a
machine that slows down for minutes (neighbours, heat) slows an arm and its neighbours alike. Simulated with
3 % of noise between runs, this makes intervals 7 % wider where nothing drifts, and a fifth narrower where
each run is 2 % slower than the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

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


Weights = dict[int, float]  # of the readings, by place: what an estimate is the sum of


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
    mean = _mean(contrasts)
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
        size = sum(weight**2 for weight in contrast.values())
        within = _variance(contrast, seen, 0.0)
        shown += CONTRAST_WORTH * (_value(contrast, seen) ** 2 - within) / size
        freedom += CONTRAST_WORTH
    total = BELIEVED_WORTH + freedom
    return math.sqrt((BELIEVED_WORTH * BELIEVED**2 + max(0.0, shown)) / total), total


def _empty_contrasts(seen: Sequence[RunSample]) -> list[Weights]:
    """Sums of readings that would be zero without noise: neighbouring baselines, and repeats of one arm."""
    bases = [place for place, one in enumerate(seen) if one.arm == BASELINE]
    found = [{before: -1.0, after: 1.0} for before, after in pairwise(bases)]
    for arm in dict.fromkeys(one.arm for one in seen if one.arm != BASELINE):
        places = [place for place, one in enumerate(seen) if one.arm == arm]
        repeats = [one for place in places if (one := _against_baseline(place, seen))]
        found += [_sum(a, b, -1.0) for a, b in pairwise(repeats)]
    return found


def _against_baseline(place: int, seen: Sequence[RunSample]) -> Weights:
    """Baseline less this run, the baseline on the line between those before and after; empty without."""
    before = next((one for one in range(place - 1, -1, -1) if seen[one].arm == BASELINE), None)
    after = next((one for one in range(place + 1, len(seen)) if seen[one].arm == BASELINE), None)
    if before is None and after is None:
        return {}
    if before is None or after is None:
        return {place: -1.0, after if before is None else before: 1.0}  # type: ignore[dict-item]
    share = (place - before) / (after - before)
    return {place: -1.0, before: 1 - share, after: share}


def _mean(contrasts: Sequence[Weights]) -> Weights:
    total: Weights = {}
    for one in contrasts:
        total = _sum(total, one, 1 / len(contrasts))
    return total


def _sum(one: Weights, other: Weights, factor: float) -> Weights:
    return {
        place: one.get(place, 0.0) + factor * other.get(place, 0.0) for place in dict.fromkeys([*one, *other])
    }


def _value(weights: Weights, seen: Sequence[RunSample]) -> float:
    return sum(weight * seen[place].log_s for place, weight in weights.items())


def _variance(weights: Weights, seen: Sequence[RunSample], noise: float) -> float:
    return sum(weight**2 * (noise**2 + seen[place].error ** 2) for place, weight in weights.items())
