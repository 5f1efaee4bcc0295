"""What each arm gained so far, and what to try next by that: baseline, remedies, the best of them at once.

An arm is held against the baselines before and after it in time, not against the mean of all of them: a
machine that slows down for minutes (neighbours, heat) slows an arm and its neighbours alike. Simulated with
3 % of noise between runs, this makes intervals 7 % wider where nothing drifts, and a fifth narrower where
each run is 2 % slower than the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Any

from ..analyse.gate import BELIEVED as GATE_NOISE
from ..analyse.gate import BELIEVED_WORTH, quantile_95
from ..analyse.predict import WORTH
from ..model.proof import BASELINE, CEILING, Arm, Attempt, Gain, Missed
from ..model.report import Remedy, Report
from ..model.run import Treatment

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


TOP = 3  # remedies, in the report's order, where none is asked for by name
WAITS = 0.05  # of the step, from which there is a ceiling worth knowing [loader_in_main.WAIT_SHARE]
COMBINATION = "combination"
NUMERICS = "it changes numerics or the order of samples; --allow-numerics tries it"
BY_HAND = {
    "hook~": NUMERICS,
    "manual": "it takes an edit of the script",
    "convert": "it takes converting the data set",
    "admin": "it takes a change of the machine",
}
NO_TREATMENT = "bdoc cannot apply it to this script from outside"


def choose_arms(
    report: Report, named: Sequence[str], allow_numerics: bool, offered: Mapping[str, Collection[str]]
) -> tuple[list[Arm], list[Missed]]:
    """The arms in the order in which they are tried, and what cannot be tried, with the reason.

    ``named``: remedies asked for, then nothing else is tried. ``offered``: the findings that offer each
    remedy that there is.
    """
    at_hand = {remedy.id: remedy for remedy in (*report.remedies, *report.warnings)}
    asked = list(dict.fromkeys(named))
    missed = [Missed(name, _absent(report, offered[name])) for name in asked if name not in at_hand]
    wanted = [at_hand[name] for name in asked if name in at_hand] if named else at_hand.values()
    chosen: list[Remedy] = []
    for remedy in wanted:
        why = _refusal(remedy, allow_numerics, remedy.id in asked, len(chosen))
        if why:
            missed.append(Missed(remedy.id, why))
        else:
            chosen.append(remedy)
    arms = [Arm(BASELINE, "baseline", "as it is")]
    for one in chosen:
        arms.append(
            Arm(one.id, "remedy", one.title, (one.id,), one.treatments, one.predicted_speedup, one.scope)
        )
    wait = report.metrics.get("data_wait_fraction")
    if chosen and not named and wait is not None and (wait.value or 0.0) >= WAITS:
        arms.append(Arm(CEILING, "ceiling", "the same batches from memory", (), (Treatment("replay"),)))
    return arms, missed


def together(kept: Sequence[Arm]) -> Arm | None:
    """All that can be had at once: of arms that set the same thing, the first; None for fewer than two."""
    chosen: list[Arm] = []
    merged: tuple[Treatment, ...] = ()
    for arm in kept:
        joined = _joined(merged, arm.treatments)
        if joined is not None:
            chosen.append(arm)
            merged = joined
    if len(chosen) < 2:
        return None
    ids = tuple(one for arm in chosen for one in arm.remedies)
    scope = "run" if any(arm.scope == "run" for arm in chosen) else "step"
    return Arm(COMBINATION, "combination", " + ".join(ids), ids, merged, None, scope)


def _refusal(remedy: Remedy, allow_numerics: bool, named: bool, chosen: int) -> str:
    """Why a remedy is not tried; "" where it is."""
    if remedy.apply in BY_HAND and not (remedy.apply == "hook~" and allow_numerics):
        return BY_HAND[remedy.apply]
    if not remedy.treatments:
        return NO_TREATMENT
    if named:
        return ""
    if remedy.predicted_speedup.reach < 1:
        return "it would hurt; --remedy tries it all the same"
    if remedy.predicted_speedup.reach < WORTH:
        return "it promises no faster steps; --remedy tries it all the same"
    return f"the {TOP} before it come first; --remedy tries it" if chosen >= TOP else ""


def _absent(report: Report, findings: Collection[str]) -> str:
    """Why the report does not offer a remedy that there is."""
    of = " or ".join(findings)
    silent = next((one.missing for one in report.abstentions if one.finding in findings), "")
    if silent:
        return f"cannot say whether it would help: {of} lacks {silent}"
    if any(one.id in findings for one in report.findings):
        return f"{of} was found, but this would not help here"
    return f"nothing here calls for it: it is for {of}"


def _joined(these: Sequence[Treatment], those: Sequence[Treatment]) -> tuple[Treatment, ...] | None:
    """Both at once; None where they set the same thing to different values. Two treatments change the same
    object: that of the same line, where they name one."""
    found = {(one.name, str(one.options.get("where"))): one for one in these}
    for one in those:
        what = one.name, str(one.options.get("where"))
        options = _merged(found[what].options, one.options) if what in found else one.options
        if options is None:
            return None
        found[what] = Treatment(one.name, options)
    return tuple(found.values())


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any] | None:
    """Options of both, tables within them joined; None where one says this and the other that."""
    merged = {**other, **one}
    for name in other:
        inner = (merged[name], other[name])
        if inner[0] != inner[1]:
            joined = _merged(*inner) if all(isinstance(part, dict) for part in inner) else None
            if joined is None:
                return None
            merged[name] = joined
    return merged


ENOUGH = 2  # runs of an arm: one alone may be an outlier
MOST = 8  # runs of an arm: a difference that so many did not show does not matter to anyone (chosen)
LOOKS = 2  # runs of the ceiling: no verdict depends on it
BASELINES_LOST = 2  # so many failures of the baseline itself end the trying


def next_arm(
    arms: Sequence[Arm],
    attempts: Sequence[Attempt],
    left_s: float,
    run_s: float,
    most: int = MOST,
    is_known: Callable[[Gain], bool] = is_settled,
) -> Arm | None:
    """The arm to run now; None when there is nothing left to know, or ``left_s`` seconds do not hold it.

    ``arms`` begin with the baseline. An arm is judged when a baseline follows it; hence one is only begun
    with time for that one. ``run_s`` is a run's length as long as none was seen. ``is_known``: whether a gain
    needs no further run; an arm has ``most`` runs at most.
    """
    baseline, *others = arms
    bases = [one for one in attempts if one.arm == BASELINE]
    lost = [one.outcome != "measured" for one in bases]
    if sum(lost) >= BASELINES_LOST or any(lost[:1]):
        return None
    if any(one.outcome == "interrupted" for one in attempts):
        return None
    last = max((place for place, one in enumerate(attempts) if one.arm == BASELINE), default=-1)
    closed, since = attempts[: last + 1], attempts[last + 1 :]
    done = {one.arm for one in since}

    def length(arm: str, otherwise_s: float) -> float:
        return max((one.run_s for one in attempts if one.arm == arm), default=otherwise_s)

    def is_open(arm: Arm) -> bool:
        """Whether another run of the arm is worthwhile."""
        mine = [one for one in attempts if one.arm == arm.id]
        if any(one.outcome != "measured" for one in mine) or len(mine) >= most:
            return False
        if arm.kind == "ceiling":
            return len(mine) < LOOKS
        gain = gain_of(arm.id, readings(closed, arm.scope))
        return len(mine) < ENOUGH or gain is None or not is_known(gain)

    baseline_s = length(BASELINE, run_s)
    for arm in others:
        if arm.id not in done and is_open(arm):
            needed_s = baseline_s + length(arm.id, baseline_s) + (baseline_s if last < 0 else 0.0)
            if needed_s <= left_s:
                return arm if last >= 0 and attempts[last].outcome == "measured" else baseline
    unclosed = any(one.outcome == "measured" for one in since)
    return baseline if unclosed and baseline_s <= left_s else None


# Of the time may have passed when a gain that is sure but vague is measured again (chosen).
FOR_EXACTNESS = 0.8


def try_out(
    arms: Sequence[Arm],
    run: Callable[[Arm], Attempt],
    left_s: Callable[[], float],
    run_s: float,
    attempts: list[Attempt],
) -> list[Arm]:
    """Fill ``attempts``, so that an interrupted command has those that were made; returns all arms, with the
    combination where one was tried. ``arms`` begin with the baseline.

    What is still open after two rounds waits for the combination: time is better spent on what pays.
    """
    spared_s = (1 - FOR_EXACTNESS) * left_s()

    def until_closed(
        these: Sequence[Arm], most: int, is_known: Callable[[Gain], bool] = is_settled, spare_s: float = 0.0
    ) -> None:
        while (arm := next_arm(these, attempts, left_s() - spare_s, run_s, most, is_known)) is not None:
            attempts.append(run(arm))

    every = list(arms)
    for most in (ENOUGH, MOST):
        until_closed(arms, most)
        if len(every) == len(arms) and (joint := together(kept(arms, attempts))) is not None:
            every.append(joint)
            until_closed([arms[0], joint], MOST)
    until_closed(every, MOST, is_exact, spared_s)
    return every


def kept(arms: Sequence[Arm], attempts: Sequence[Attempt]) -> list[Arm]:
    """The remedies that pay, the best first."""
    gains = {arm.id: gain_of(arm.id, readings(attempts, arm.scope)) for arm in arms if arm.kind == "remedy"}
    paying = {name: gain for name, gain in gains.items() if gain is not None and verdict(gain) == "kept"}
    failed = {one.arm for one in attempts if one.outcome != "measured"}
    found = [arm for arm in arms if arm.id in paying and arm.id not in failed]
    return sorted(found, key=lambda arm: -paying[arm.id].likely)
