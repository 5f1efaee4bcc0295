"""Hold a report against what is known of the patient and against the measured twin: pure functions."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.patients.expected import Patient

WORTHWHILE = 1.05
SLOWER = 0.97
AS_GOOD = 0.95
NEAR = 0.25
# Advice about strangers on the cores: true of the machine in that minute, not of the patient.
ABOUT_STRANGERS = frozenset({"isolate-cpus"})


@dataclass(frozen=True)
class Taken:
    """Of one patient's runs beside the profile: its own clock, seconds sick, cured, with each remedy."""

    truth: dict[str, Any]
    sick_s: Sequence[float] = ()
    cured_s: Sequence[float] = ()
    limited: bool = False
    same_output: bool = True
    tried_s: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Tried:
    """A remedy that was tried by hand: what was promised (None where the list lacks it) and what came."""

    remedy: str
    likely: float | None
    most: float | None
    measured: float

    @property
    def error(self) -> float | None:
        """How far what was promised lies from what came, as a share of that; None where that is no number."""
        return abs(self.likely / self.measured - 1) if self.likely else None

    @property
    def harmful(self) -> bool:
        """Whether a gain was promised, and the training got slower."""
        return (self.likely or 0.0) > WORTHWHILE and self.measured < SLOWER


@dataclass(frozen=True)
class Judgement:
    """One row of the table. A verdict of ``None`` means that there is nothing to judge."""

    name: str
    group: str
    bound: str
    bound_right: bool
    cause: str
    cause_right: bool
    remedy: str
    remedy_right: bool | None
    wait: float | None
    wait_truth: float | None
    wait_right: bool | None
    twin: str
    predicted: tuple[float, float, float] | None
    measured: float | None
    inside: bool | None
    near: bool | None
    hurts: str = ""
    same_output: bool = True
    basis: str = ""
    most: float | None = None  # the upper bound, where that is all that is said
    slowed: float | None = None  # mean step under bdoc over the mean step of the plain runs
    tried: tuple[Tried, ...] = ()  # in the order of the report's list; those that it lacks come last

    @property
    def best_first(self) -> bool | None:
        """Whether, of the remedies that were tried, the list's first brings most, or as good as that."""
        if not self.tried or self.tried[0].most is None:
            return None
        return self.tried[0].measured >= AS_GOOD * max(one.measured for one in self.tried)

    @property
    def wait_error(self) -> float | None:
        """How far the data wait lies from the truth, where that is judged; a share of the wall time."""
        if self.wait_right is None or self.wait is None or self.wait_truth is None:
            return None
        return abs(self.wait - self.wait_truth)

    @property
    def bounded(self) -> bool | None:
        """Whether the upper bound holds, within the error that a promise is allowed."""
        return None if self.most is None or not self.measured else self.measured <= self.most * (1 + NEAR)

    @property
    def speedup_error(self) -> float | None:
        """How far the likely speedup lies from the measured one, as a share of that."""
        if self.predicted is None or not self.measured:
            return None
        return abs(self.predicted[1] / self.measured - 1)


def judge(patient: Patient, report: dict[str, Any], taken: Taken) -> Judgement:
    """Compare one report, and what was measured beside it, with the patient's table entry."""
    truth, sick_s = taken.truth, taken.sick_s
    bound, cause = report["verdict"]["bound"], report["verdict"]["cause"]
    listed = report["remedies"] + report.get("warnings", [])
    promises = {remedy["id"]: remedy["predicted_speedup"] for remedy in listed}
    first = _first(patient, promises)
    wait, wait_truth = report["metrics"]["data_wait_fraction"]["value"], truth.get("wait_fraction")
    released = report["metrics"].get("batch_release_fraction")  # a stopwatch around the line counts both
    wait = wait + released["value"] if wait is not None and released else wait
    promise = promises.get(patient.twin or "")
    predicted = _range(promise)
    measured = ratio(sick_s, taken.cured_s)
    basis = promises[patient.twin].get("basis", "") if patient.twin in promises else ""
    inside, near = None, None
    if predicted is not None and measured is not None:
        inside = predicted[0] <= measured <= predicted[2]
        near = abs(predicted[1] / measured - 1) <= NEAR
    return Judgement(
        name=patient.name,
        group=patient.group,
        bound=bound,
        bound_right=bound in _bounds(patient, taken.limited),
        cause=cause,
        cause_right=cause in patient.causes,
        remedy=first,
        remedy_right=_remedy_right(patient, first),
        wait=wait,
        wait_truth=wait_truth,
        wait_right=_wait_right(patient, wait, wait_truth),
        twin=patient.twin or "",
        predicted=predicted,
        measured=measured,
        inside=inside,
        near=near,
        hurts=", ".join(
            name
            for name in sorted(patient.never)
            if (promises.get(name, {"likely": 0})["likely"] or 0) > WORTHWHILE
        ),
        same_output=taken.same_output,
        tried=_tried(promises, taken),
        basis=basis,
        most=promise["high"] if promise is not None and promise["likely"] is None else None,
        slowed=ratio([truth["step_mean_s"]], sick_s) if truth.get("step_mean_s") else None,
    )


def ratio(sick_s: Sequence[float], cured_s: Sequence[float]) -> float | None:
    """The speedup from these runs to those, by their medians."""
    return statistics.median(sick_s) / statistics.median(cured_s) if sick_s and cured_s else None


def _tried(promises: dict[str, Any], taken: Taken) -> tuple[Tried, ...]:
    order = [name for name in promises if name in taken.tried_s]
    order += [name for name in taken.tried_s if name not in promises]
    told = {name: promises.get(name, {}) for name in order}
    base_s = statistics.median(taken.sick_s) if order else 0.0
    return tuple(
        Tried(name, one.get("likely"), one.get("high"), base_s / statistics.median(taken.tried_s[name]))
        for name, one in told.items()
    )


def _first(patient: Patient, promises: dict[str, Any]) -> str:
    aside = frozenset() if patient.strangers else ABOUT_STRANGERS
    told = "likely" if patient.remedies == frozenset() else "high"  # a bound promises nothing
    worth = {
        name: promise[told] if promise["likely"] is None else promise["likely"]
        for name, promise in promises.items()
    }
    worthwhile = (name for name, speedup in worth.items() if (speedup or 1.0) > WORTHWHILE)
    return next((name for name in worthwhile if name not in aside), "")


def _bounds(patient: Patient, limited: bool) -> frozenset[str]:
    if patient.limit is None or limited:
        return patient.bounds
    return patient.bounds_without_limit or patient.bounds


def _remedy_right(patient: Patient, first: str) -> bool | None:
    if patient.remedies is None:
        return None
    return first in patient.remedies if patient.remedies else first == ""


def _wait_right(patient: Patient, wait: float | None, truth: float | None) -> bool | None:
    if patient.wait_tolerance is None or truth is None:
        return None
    return wait is not None and abs(wait - truth) <= patient.wait_tolerance


def _range(promise: dict[str, Any] | None) -> tuple[float, float, float] | None:
    return (
        None
        if promise is None or promise["likely"] is None
        else (promise["low"], promise["likely"], promise["high"])
    )
