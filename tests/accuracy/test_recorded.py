"""Recorded trainings, diagnosed again: what `docs/accuracy.md` publishes may not get worse.

No training is started: profiles, the scripts' own clocks and the times with each cure were recorded by
`make accuracy` and `make others`. Each run is diagnosed once; all tests read the same judgements.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from math import fsum
from statistics import median
from typing import Any

import pytest

from bottleneck_doctor.analyse.attribution import attribute
from bottleneck_doctor.analyse.predict import side_of
from bottleneck_doctor.analyse.whole_run import UNEXPLAINED, ledger_of
from bottleneck_doctor.model.diagnosis import Diagnosis
from tests.lab.golden import GOLDEN, names
from tests.lab.judge import Judgement, judge
from tests.lab.kept import TAKEN, report_and_diagnosis, report_of, taken_of
from tests.others.__main__ import KEPT, NAMES, judged, read, trained_of
from tests.patients.expected import PATIENTS

RECORDED = GOLDEN / "accuracy"
OWN = [one for one in PATIENTS if one.name + TAKEN in names(RECORDED)]
# What the published page reached, with room for a rounding. These numbers may only become stricter.
CAUSES_RIGHT, REMEDIES_RIGHT, INSIDE, BOUNDED = 0.97, 0.94, 0.80, 0.75
WAIT_MEDIAN, WAITS_RIGHT, SPEEDUP_MEDIAN, SPEEDUP_P90 = 0.005, 0.97, 0.115, 0.60
OTHERS_FIRST_RIGHT = 21  # of 22; the other begins with `keep-freed-memory`
OTHERS_SPEEDUP, OTHERS_BEST_FIRST = 0.15, 0.9
ROUNDING = 0.02
ENOUGH, HALF = 50, 0.5  # samples of the loop's thread; of what the verdict's share of the step predicts


@dataclass(frozen=True)
class Seen:
    """What a diagnosis says of its own evidence. Samples of the loop's thread: all of them, those outside the
    code that gets batches, those not on a core. ``ledger``: the parts' shares, and the unexplained one."""

    total: int
    own: int
    off_core: int
    side: str
    bound: str
    about_training: bool
    alone: bool
    wait: float
    ledger: tuple[float, float]
    promised: dict[str, float]


# Findings about a place in the step, and what their evidence calls its share.
PLACES = {"host-python-hot": "hottest_share", "optimizer-step-slow": "optimizer_share"}


def of_their_place(report: dict[str, Any]) -> dict[str, float]:
    """What remedies for a place promise at most, over the speedup of a step without that place."""
    shares = {
        found["id"]: each["value"]
        for found in report["findings"]
        for each in found["evidence"]
        if each["metric"] == PLACES.get(found["id"])
    }
    return {
        one["id"]: one["predicted_speedup"]["high"] * (1 - shares[one["finding"]])
        for one in report["remedies"]
        if one["finding"] in shares
    }


def seen_in(one: Diagnosis, report: dict[str, Any]) -> Seen:
    loop, every, own, told = one.loop, [], 0, [it["predicted_speedup"] for it in report["remedies"]]
    assert all((it["likely"] or it["high"]) >= 1 for it in told), "what would hurt is a warning"
    if loop is not None and loop.thread == 0:
        found = attribute(one.profile, loop)
        every = [sample.stack for sample in found.samples]
        own = sum(sample.stack.count for sample in found.own)
    parts = ledger_of(one)
    assert not parts or fsum(part.s for part in parts) == pytest.approx(one.profile.run.duration_s)
    return Seen(
        sum(stack.count for stack in every),
        own,
        sum(stack.count - (stack.running or 0) for stack in every),
        side_of(one.verdict.cause),
        one.verdict.bound,
        one.subject == "training" and len(one.phases) < 2,
        one.loader is None or not one.loader.num_workers,
        one.wait_s / one.step_s if one.step_s else 0.0,
        (fsum(part.share for part in parts), fsum(part.share for part in parts if part.part == UNEXPLAINED)),
        of_their_place(report),
    )


@cache
def own_trainings() -> dict[str, tuple[Judgement, Seen]]:
    found = {}
    for patient in OWN:
        report, diagnosis = report_and_diagnosis(RECORDED, patient.name)
        found[patient.name] = judge(patient, report, taken_of(RECORDED, patient)), seen_in(diagnosis, report)
    return found


@cache
def by_others() -> dict[str, tuple[Judgement, Seen]]:
    found = {}
    for name in NAMES:
        report, diagnosis = report_and_diagnosis(KEPT, name)
        found[name] = judged(read(name), report, trained_of(name)), seen_in(diagnosis, report)
    return found


def share(right: Callable[[Judgement], bool | None]) -> float:
    judged = [verdict for one, _ in own_trainings().values() if (verdict := right(one)) is not None]
    return sum(judged) / len(judged)


def wrong(found: Sequence[Judgement], right: str) -> list[str]:
    return [one.name for one in found if not getattr(one, right)]


def own() -> list[Judgement]:
    return [one for one, _ in own_trainings().values()]


def others() -> list[Judgement]:
    return [one for one, _ in by_others().values()]


def test_most_trainings_are_recorded() -> None:
    """Those that need what not every machine allows (limits on disks and memory) may be missing."""
    assert len(OWN) >= 0.9 * len(PATIENTS)


def test_every_bound_is_right() -> None:
    assert wrong(own(), "bound_right") == []


def test_causes_and_first_remedies_are_right() -> None:
    assert share(lambda one: one.cause_right) >= CAUSES_RIGHT
    assert share(lambda one: one.remedy_right) >= REMEDIES_RIGHT


def test_a_healthy_run_is_promised_nothing() -> None:
    healthy = [one.name for one in OWN if one.remedies == frozenset()]
    assert [name for name in healthy if own_trainings()[name][0].remedy] == []


def test_the_data_wait_is_what_the_script_measured() -> None:
    errors = [error for one in own() if (error := one.wait_error) is not None]
    assert median(errors) <= WAIT_MEDIAN
    assert share(lambda one: one.wait_right) >= WAITS_RIGHT


def test_speedups_come_as_promised() -> None:
    errors = sorted(error for one in own() if (error := one.speedup_error) is not None)
    assert median(errors) <= SPEEDUP_MEDIAN
    assert errors[int(0.9 * len(errors))] <= SPEEDUP_P90
    assert share(lambda one: one.inside) >= INSIDE
    assert share(lambda one: one.bounded) >= BOUNDED


def test_trainings_by_others_are_judged_rightly() -> None:
    assert (wrong(others(), "bound_right"), wrong(others(), "cause_right")) == ([], [])
    missed = wrong(others(), "remedy_right")
    assert len(NAMES) - len(missed) >= OTHERS_FIRST_RIGHT, missed


def test_remedies_for_others_bring_what_is_promised_and_the_first_brings_most() -> None:
    tried = [one for found in others() for one in found.tried]
    assert median([abs(one.likely / one.measured - 1) for one in tried if one.likely]) <= OTHERS_SPEEDUP
    best = [one.best_first for one in others() if one.best_first is not None]
    assert sum(best) >= OTHERS_BEST_FIRST * len(best)
    assert [one.remedy for one in tried if one.harmful] == []


def test_no_remedy_promises_more_than_a_step_without_its_place() -> None:
    runs = own_trainings() | by_others()
    promised = {(name, cure): most for name, (_, one) in runs.items() for cure, most in one.promised.items()}
    assert len(promised) >= 5
    assert {place: most for place, most in promised.items() if most > 1 + ROUNDING} == {}


def test_every_cure_fits_its_script() -> None:
    for name in NAMES:
        training = read(name)
        for cure in training.cures:
            compile(training.script(cure), f"{name} with {cure}", "exec")


def test_a_named_cause_is_where_the_samples_are() -> None:
    """A cause has at least half of the samples that its side's share of the step says."""
    judged_by_samples = 0
    for name, (_, one) in own_trainings().items():
        if one.total < ENOUGH or not one.about_training or one.bound == "inconclusive":
            continue
        judged_by_samples += 1
        if one.side == "input":
            assert (one.total - one.own) / one.total >= HALF * one.wait, name
        elif one.side == "model":
            assert one.own / one.total >= HALF * (1 - one.wait), name
    assert judged_by_samples > len(OWN) / 2


def test_a_loop_that_makes_its_batches_and_sleeps_is_not_held_up_by_the_cpu() -> None:
    asleep = {
        name: one.bound
        for name, (_, one) in own_trainings().items()
        if one.total >= ENOUGH and one.alone and one.about_training
        if one.off_core >= HALF * one.total and one.side in ("input", "model")
    }
    assert asleep
    assert "cpu" not in asleep.values(), asleep


def test_every_run_sums_to_one_with_little_left() -> None:
    """Recordings of schema 1 do not divide the time of the process."""
    seen = own_trainings() | by_others()
    ledgers = {name: one.ledger for name, (_, one) in seen.items() if one.ledger[0]}
    assert len(ledgers) >= 40
    for name, (whole, unexplained) in ledgers.items():
        assert whole == pytest.approx(1.0), name
        assert unexplained <= 0.05, name


@pytest.mark.parametrize(
    ("name", "reading"),  # whether phases are I/O-bound, in order
    [
        ("cold-first-epoch", [True, False]),
        ("periodic-evaluation", [False]),  # evaluation is no part of a step
        ("bimodal-batches", [False]),
        ("single-stall", [False]),
    ],
)
def test_a_recorded_run_has_the_phases_that_were_put_there(name: str, reading: list[bool]) -> None:
    bound_by_io = [phase["verdict"]["bound"] == "io" for phase in report_of(RECORDED, name)["phases"]]
    assert [bound for bound, _ in groupby(bound_by_io)] == reading
