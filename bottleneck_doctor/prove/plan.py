"""Chooses what to try: baseline, ceiling, the remedies worth a run, and later the best of them together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..analyse.predict import WORTH
from ..model.proof import BASELINE, CEILING, Arm, Missed
from ..model.report import Remedy, Report
from ..model.run import Treatment

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
    baseline = Arm(BASELINE, "baseline", "as it is")
    ceiling = [_ceiling()] if chosen and not named and _waits(report) else []
    return [baseline, *map(_arm, chosen), *ceiling], missed


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


def _ceiling() -> Arm:
    return Arm(CEILING, "ceiling", "the same batches from memory", (), (Treatment("replay"),))


def _arm(one: Remedy) -> Arm:
    return Arm(one.id, "remedy", one.title, (one.id,), one.treatments, one.predicted_speedup, one.scope)


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


def _waits(report: Report) -> bool:
    waiting = report.metrics.get("data_wait_fraction")
    return waiting is not None and (waiting.value or 0.0) >= WAITS


def _joined(these: Sequence[Treatment], those: Sequence[Treatment]) -> tuple[Treatment, ...] | None:
    """Both at once; None where they set the same thing to different values."""
    found = list(these)
    for treatment in those:
        place = next((at for at, one in enumerate(found) if _meets(one, treatment)), None)
        if place is None:
            found.append(treatment)
            continue
        options = _merged(found[place].options, treatment.options)
        if options is None:
            return None
        found[place] = Treatment(treatment.name, options)
    return tuple(found)


def _meets(one: Treatment, other: Treatment) -> bool:
    """Whether two treatments change the same object: that of the same line, where they name one."""
    return one.name == other.name and one.options.get("where") == other.options.get("where")


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any] | None:
    """Options of both, tables within them joined; None where one says this and the other that."""
    merged = dict(one)
    for name, value in other.items():
        if name not in merged or merged[name] == value:
            merged[name] = value
        elif isinstance(value, dict) and isinstance(merged[name], dict):
            inner = _merged(merged[name], value)
            if inner is None:
                return None
            merged[name] = inner
        else:
            return None
    return merged
