"""What promises nothing is still said, after everything that promises something."""

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.findings import report
from bottleneck_doctor.findings.ranking import STEADY, offers, remedies, without_trifles_first, worth_saying
from bottleneck_doctor.findings.registry import entries, given
from bottleneck_doctor.findings.report import FAILED, write_up
from bottleneck_doctor.model.diagnosis import BatchCost, Change, Diagnosis, Finding, Proposal, StepCost
from bottleneck_doctor.model.report import Evidence, Fix
from tests.analyse.runs import run_of
from tests.analyse.test_evaluated import slow_validation
from tests.findings.builders import steady_run

FIX = Fix("do it")
AVERTS = Proposal("grow-shm", "more room", FIX, factor=(1.0, 1.0, 1.0), apply="env")
LITTLE = Proposal("tidy-up", "a little", FIX, factor=(1.0, 1.01, 1.02), apply="env")
HELPS = Proposal("workers-auto", "two workers", FIX, change=Change(workers=2), apply="admin", effort="days")


def run() -> tuple[Diagnosis, list[Finding]]:
    found = Finding("shm-exhaustion", "input.ipc", [Evidence("room")], [AVERTS, LITTLE, HELPS])
    return steady_run(BatchCost(0.02), StepCost(0.0, 0.02)), [found]


def test_a_remedy_that_averts_a_failure_is_said_and_one_that_brings_little_is_not() -> None:
    diagnosis, found = run()
    said = [offer.proposal.id for offer in offers(diagnosis, found) if worth_saying(diagnosis, offer)]
    assert said == ["workers-auto", "grow-shm"]


def order_of(confidence: str, gained: float = 1.3) -> list[str]:
    """A cure of the named cause that gains 30 %, and one of something else that doubles the speed."""
    named = Proposal("named", "of the cause", FIX, factor=(1.0, gained, 1.3))
    other = Proposal("other", "of something else", FIX, factor=(1.9, 2.2, 2.4))
    diagnosis, _ = run()
    verdict = replace(diagnosis.verdict, cause="input.preprocess", confidence=confidence)
    found = [
        Finding("log-slow", "host.logging", [Evidence("log")], [other]),
        Finding("decode-bound", "input.collate", [Evidence("decode")], [named]),
    ]
    diagnosis = replace(diagnosis, verdict=verdict)
    return [one.proposal.id for one in without_trifles_first(diagnosis, offers(diagnosis, found))]


def test_what_treats_the_named_cause_comes_first_unless_that_is_a_guess() -> None:
    assert order_of("high") == ["named", "other"]
    assert order_of("low") == ["other", "named"]
    assert order_of("high", gained=1.05) == ["other", "named"], "a trifle beside what another surely saves"


def test_a_bound_above_what_is_predicted_may_be_first_and_what_may_slow_down_is_last() -> None:
    risky = Proposal("risky", "more at best", FIX, factor=(0.9, 1.8, 2.0))
    steady = Proposal("steady", "a little", FIX, factor=(1.0, 1.1, 1.2))
    bounds = [
        Proposal(name, name, FIX, factor=(1.0, likely, 4.0), basis="bound", most=4.0)
        for name, likely in (("much", 2.6), ("some", 1.2))
    ]
    diagnosis, _ = run()
    found = [Finding("log-slow", "host.logging", [Evidence("log")], [risky, steady, *bounds])]
    ranked = without_trifles_first(diagnosis, offers(diagnosis, found))
    assert [offer.proposal.id for offer in ranked] == ["much", "steady", "some", "risky"]


def test_workers_may_slow_down_what_many_threads_make() -> None:
    """A worker has one thread, and shares caches and cores with the model."""
    diagnosis = steady_run(BatchCost(0.02), StepCost(0.02))
    more = Finding("input-bound", "input.preprocess", [], [HELPS])

    def may_slow(threads: float) -> bool:
        scenario = replace(given(diagnosis.scenario), making_threads=threads)
        (offer,) = offers(replace(diagnosis, scenario=scenario), [more])
        return offer.cautious < STEADY

    assert [may_slow(threads) for threads in (1.0, 4.0)] == [False, True]


@pytest.mark.parametrize("gained", [1.27, 1.46])
def test_of_two_that_gain_about_as_much_the_easier_comes_first_wherever_they_lie(gained: float) -> None:
    hard, easy = (
        Proposal(name, name, FIX, factor=(one, one, one), apply="manual", effort=effort)
        for name, one, effort in (("hard", gained * 1.02, "days"), ("easy", gained, "minutes"))
    )
    best = replace(hard, id="best", factor=(2.0, 2.0, 2.0))
    diagnosis, _ = run()
    found = Finding("log-slow", "host.logging", [Evidence("log")], [hard, easy, best])
    assert [offer.proposal.id for offer in offers(diagnosis, [found])] == ["best", "easy", "hard"]


@pytest.mark.parametrize(
    ("cause", "most", "bound"),
    [("host.logging", 1.5, 1.5), ("input.decode", 1.4, 1.4), ("input.collate", None, 2.0)],
)
def test_a_guess_tells_its_bound_and_no_number(cause: str, most: float | None, bound: float) -> None:
    """Of a cure for the input, where the finding knows no closer one, the bound is a step without input."""
    diagnosis, _ = run()
    proposal = Proposal("guess", "elsewhere", FIX, factor=(1.0, 1.2, 1.3), most=most, basis="bound")
    (offer,) = offers(diagnosis, [Finding("slow", cause, [Evidence("seen")], [proposal])])
    assert (offer.likely, offer.told.likely, offer.told.low) == (1.2, None, 1.0)
    assert 0.99 * bound <= offer.told.high < 1.5 * bound
    (told,) = remedies(diagnosis, [offer])
    assert (told.predicted_step_s, told.combined_speedup) == (None, None)


def test_a_guess_that_experience_finds_small_is_not_worth_a_risk() -> None:
    diagnosis, _ = run()
    proposals = [
        Proposal(name, name, FIX, factor=(1.0, gained, 2.0), most=3.0, basis="bound", risk=risk)
        for name, gained, risk in (("small", 1.08, "digits"), ("large", 1.3, "digits"), ("safe", 1.08, ""))
    ]
    ranked = offers(diagnosis, [Finding("slow", "model.compute", [Evidence("seen")], proposals)])
    assert [offer.proposal.id for offer in ranked if worth_saying(diagnosis, offer)] == ["large", "safe"]


@pytest.mark.parametrize("evaluates", [False, True])
def test_a_finding_that_fails_costs_the_report_no_more_than_itself(
    evaluates: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Be it about the training's loader, or about the evaluation's alone."""
    entry = next(one for one in entries() if one.id == "loader-in-main")
    profile = slow_validation() if evaluates else run_of(workers=0, cpu=0.03, compute=0.01)
    before, training = write_up(profile), diagnose(profile).loader if evaluates else None

    def loader_in_main(diagnosis: Diagnosis) -> Finding | str | None:
        if diagnosis.loader != training:
            raise ZeroDivisionError("float division by zero")
        return entry.examine(diagnosis)

    shelf = [replace(one, examine=loader_in_main) if one is entry else one for one in entries()]
    monkeypatch.setattr(report, "entries", lambda: shelf)
    after = write_up(profile)
    (gap,) = (one for one in after.quality.gaps if "finding" in one.what)
    assert gap.what == "the finding loader-in-main"
    if not evaluates:
        assert [one.id for one in after.findings] == [one.id for one in before.findings if one.id != entry.id]
        (why,) = (one.missing for one in after.abstentions if one.finding == entry.id)
        assert why.startswith(FAILED)
