"""Chooses what to try: baseline, ceiling, the remedies worth a run, and later the best of them together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ..analyse.predict import WORTH
from ..model.proof import BASELINE, CEILING, Arm, Attempt, Gain, Missed
from ..model.report import Remedy, Report
from ..model.run import Treatment
from .gains import gain_of, is_exact, is_settled, readings, verdict

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
    report: Report,
    named: Sequence[str],
    expected: Sequence[str],
    allow_numerics: bool,
    offered: Mapping[str, Collection[str]],
) -> tuple[list[Arm], list[Missed]]:
    """The arms in the order in which they are tried, and what cannot be tried, with the reason.

    ``named``: remedies asked for, then nothing else is tried; ``expected`` are tried besides the report's.
    ``offered``: the findings that offer each remedy that there is.
    """
    at_hand = {remedy.id: remedy for remedy in report.remedies}
    asked = list(dict.fromkeys([*named, *expected]))
    missed = [Missed(name, _absent(report, offered[name])) for name in asked if name not in at_hand]
    wanted = [at_hand[name] for name in asked if name in at_hand]
    if not named:
        wanted += [remedy for remedy in report.remedies if remedy not in wanted]
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
