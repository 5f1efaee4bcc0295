"""The shelf keeps its form; every case comes out as it says, with predictions that add up."""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from types import ModuleType

import pytest

from bottleneck_doctor.agent.trial import TREATMENTS, treatment
from bottleneck_doctor.analyse.predict import WORTH, gain, side_of
from bottleneck_doctor.analyse.verdict import SENTENCES
from bottleneck_doctor.findings.ranking import (
    EASE,
    EFFORT,
    HURTS,
    TRUST,
    offers,
    promises_nothing,
    worth_saying,
)
from bottleneck_doctor.findings.registry import EVERYWHERE, Entry, entries, families, pages
from bottleneck_doctor.model.device import DeviceFacts, DeviceView, DriverView
from bottleneck_doctor.model.diagnosis import (
    BatchCost,
    Change,
    Diagnosis,
    Finding,
    HostLoad,
    Inputs,
    Proposal,
)
from bottleneck_doctor.model.report import Abstention
from bottleneck_doctor.model.run import ENVIRONMENT
from tests.findings.builders import Case
from tests.findings.cases import cases_of

SECTIONS = [
    "What it means",
    "Why it costs",
    "How it is measured",
    "Thresholds",
    "When this advice is wrong",
    "Prediction",
    "Remedies",
    "References",
]
APPLIED = {"env", "hook", "hook~"}
KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

# A test is of a finding, not of a case: these are replayed, which would be done when tests are collected.
SHELF = {entry.id: entry for entry in entries()}


@pytest.fixture(params=SHELF.values(), ids=SHELF.keys())
def entry(request: pytest.FixtureRequest) -> Entry:
    """Each finding in turn."""
    assert isinstance(request.param, Entry)
    return request.param


def test_a_page_has_its_sections_in_order_and_none_is_empty(entry: Entry) -> None:
    first, *rest = re.split(r"^## (.+)$", pages()[entry.id], flags=re.MULTILINE)
    assert rest[0::2] == SECTIONS
    assert re.fullmatch(r"[^\n]+\.", first.strip()), "the page begins with one sentence on one line"
    assert all(len(text.split()) >= 5 for text in rest[1:-3:2]), "a section says something"
    assert rest[-1].strip(), "the references name something"


def test_a_finding_shows_when_it_fires_when_not_and_when_it_cannot_say(entry: Entry) -> None:
    outcomes = {case.outcome for case in cases_of(entry.id)}
    own = {"abstains"} if "str" in entry.examine.__annotations__["return"] else set()
    assert outcomes == {"fires", "silent"} | own


@pytest.mark.parametrize("family", families().values(), ids=families().keys())
def test_thresholds_say_where_they_come_from(family: ModuleType) -> None:
    bare = [name for name, source in _thresholds(family) if "#" not in source]
    assert not bare, (
        f"{family.__file__}: say in a comment where {', '.join(bare)} comes from, or that it is ours"
    )


def test_a_case_comes_out_as_it_says(entry: Entry) -> None:
    for case in cases_of(entry.id):
        outcome = entry.ask(case.diagnosis)
        kind = {Finding: "fires", Abstention: "abstains"}.get(type(outcome), "silent")
        assert kind == case.outcome, f"{case.name}: {outcome}"
        if isinstance(outcome, Finding):
            offered = {proposal.id for proposal in outcome.proposals}
            assert set(case.remedies) - {"none"} <= offered, f"{case.name}: {offered}"
            assert not offered or case.remedies != ("none",), f"{case.name}: {offered}"
            assert not offered.intersection(case.never), f"{case.name}: {offered}"
        if isinstance(outcome, Abstention):
            assert outcome.finding == entry.id
            assert re.match(r"\S", outcome.missing), f"{case.name}: an abstention names what was missing"


def test_a_finding_is_well_formed(entry: Entry) -> None:
    for case, finding in found(entry.id):
        assert finding.id == entry.id
        assert finding.cause in SENTENCES.keys() - {"none"}
        assert finding.evidence, f"{case.name}: a finding without evidence is an opinion"
        for evidence in finding.evidence:
            assert evidence.text[:1].islower() or evidence.text.split()[0].isupper()
            assert (evidence.value is None) or evidence.source, f"{evidence.text}: who says so?"
            assert evidence.value is None or evidence.value == evidence.value, (
                f"{evidence.text}: not a number"
            )


def test_a_proposal_is_declared_predicted_and_can_be_tried_as_it_says(entry: Entry) -> None:
    """A run may say more of a remedy, or forbid that a trial applies it; what it is, it says in advance."""
    assert entry.cause in SENTENCES.keys() - {"none"}
    for case, proposal in proposed(entry):
        said = f"{case.name}: {proposal.id}"
        same = [one for one in entry.remedies if (one.id, one.effort) == (proposal.id, proposal.effort)]
        assert any(proposal.apply in (one.apply, "manual") for one in same), f"{said}: not declared"
        assert proposal.basis in TRUST
        assert not proposal.title.endswith(".")
        assert proposal.fix.text
        assert (proposal.change is None) != (proposal.factor is None), f"{said}: a Change or a range"
        low, likely, high = proposal.factor or (1, 1, 1)
        assert 0 < low <= likely <= high, f"{said}: {proposal.factor}"
        if proposal.id in case.remedies:  # it would be reported
            gained = _likely(case.diagnosis, proposal)
            assert gained >= WORTH or gained <= HURTS or promises_nothing(proposal), f"{said}: ×{gained:.2f}"
        assert bool(proposal.treatments) == (proposal.apply in APPLIED), said
        for one in proposal.treatments:
            if one.name == ENVIRONMENT:
                assert one.options, said
            else:
                assert all(map(callable, treatment(one.name)(one.options, list[str]().append).values())), said


def test_a_declared_remedy_reads_without_a_run(entry: Entry) -> None:
    for remedy in entry.remedies:
        assert KEBAB.fullmatch(remedy.id)
        assert remedy.title[:1].islower()
        assert not re.search(r"\.$|[{}]", remedy.title), remedy.title
        assert remedy.fix.text
        assert remedy.fix.snippet or remedy.apply == "admin", f"{remedy.id}: what to write"
        assert remedy.fix.location is None, f"{remedy.id}: only a run knows the place"
        assert (remedy.apply in EASE, remedy.effort in EFFORT, remedy.basis in TRUST) == (True, True, True)


def test_a_finding_can_look_at_the_runs_of_all_others(entry: Entry) -> None:
    """It may fire on them, even where sensors saw less; it never fails."""
    for diagnosis in _firsts():
        outcome = entry.ask(diagnosis)
        assert outcome is None or isinstance(outcome, Finding | Abstention)


def test_nothing_is_claimed_of_a_run_in_which_nothing_was_seen(entry: Entry) -> None:
    for case in cases_of(entry.id):
        outcome = entry.ask(_unseen(case.diagnosis))
        assert not isinstance(outcome, Finding)
        assert isinstance(outcome, Abstention) or not entry.needs or entry.device


def test_a_finding_speaks_on_the_devices_that_it_declares(entry: Entry) -> None:
    """Those that need a device's clock, or computing on a CPU, are shown to fire on each; others are not."""
    firing = [case.diagnosis for case in cases_of(entry.id) if case.outcome == "fires"]
    fired = {"CUDA" if one.host.accelerated else "CPU" for one in firing}
    assert fired <= set(entry.reach.devices)
    assert not (entry.device and "CPU" in entry.reach.devices)
    assert entry.reach.why or entry.reach == EVERYWHERE
    if entry.reach != EVERYWHERE:
        assert fired == {"CPU", "CUDA"} & set(entry.reach.devices)
    elsewhere = replace(firing[0], host=replace(firing[0].host, accelerated=True))
    if "CUDA" not in entry.reach.devices:
        assert entry.ask(elsewhere) == Abstention(entry.id, f"a model on the CPU: {entry.reach.why}")
    elif "others" not in entry.reach.devices:
        untimed = DeviceView(DeviceFacts(kind="mps"), DriverView())
        assert isinstance(entry.ask(replace(elsewhere, device=untimed)), Abstention)


def test_a_device_that_waits_for_batches_is_promised_nothing(entry: Entry) -> None:
    """Cures of its own work, where two workers take 0.1 s for a batch."""
    for case in cases_of(entry.id):
        scenario = case.diagnosis.scenario
        if case.outcome != "fires" or not case.diagnosis.host.accelerated or scenario is None:
            continue
        starved = replace(case.diagnosis, scenario=replace(scenario, works=(BatchCost(0.2),)))
        found = entry.ask(starved)
        if isinstance(found, Finding) and not found.cause.startswith(("input.", "device.transfer")):
            ranked = [one for one in offers(starved, [found]) if worth_saying(starved, one)]
            assert not ranked, f"{case.name}: {ranked}"


@cache
def found(finding: str) -> list[tuple[Case, Finding]]:
    """What a finding says of the cases in which it is to fire."""
    asked = [
        (case, SHELF[finding].ask(case.diagnosis)) for case in cases_of(finding) if case.outcome == "fires"
    ]
    assert all(isinstance(finding, Finding) for _, finding in asked)
    return asked


def proposed(entry: Entry) -> list[tuple[Case, Proposal]]:
    """All proposals of these."""
    return [(case, proposal) for case, finding in found(entry.id) for proposal in finding.proposals]


def _likely(diagnosis: Diagnosis, proposal: Proposal) -> float:
    if proposal.factor is not None:
        return proposal.factor[1]
    assert diagnosis.scenario is not None
    return gain(diagnosis.scenario, proposal.change or Change())


@cache
def _firsts() -> list[Diagnosis]:
    """The first case of each finding, seen and blinded."""
    firsts = [cases_of(entry.id)[0].diagnosis for entry in SHELF.values()]
    return firsts + [_blinded(one) for one in firsts]


def _blinded(diagnosis: Diagnosis) -> Diagnosis:
    """The same run without what sensors, rather than hooks, see."""
    return replace(
        diagnosis,
        host=HostLoad(cores=diagnosis.host.cores),
        inputs=replace(
            diagnosis.inputs, busy=None, storage_bytes=None, read_bytes=None, reads=None, opens=None
        ),
        steps=[replace(step, cpu=None, queue=None, process_cpu=None) for step in diagnosis.steps],
    )


def _unseen(diagnosis: Diagnosis) -> Diagnosis:
    profile = replace(
        diagnosis.profile, loaders=[], loops=[], fetches=[], payloads=[], repeats=[], hot_files=[],
        operations=[], stacks=[],
    )  # fmt: skip
    return replace(
        diagnosis, profile=profile, loop=None, loader=None, steps=[], inputs=Inputs(),
        host=HostLoad(cores=2.0), scenario=None, step_s=0.0, wait_s=0.0, metrics={}, causes={},
    )  # fmt: skip


def _thresholds(family: ModuleType) -> Iterator[tuple[str, str]]:
    """Numbers under an upper-case name, with their lines and the one above."""
    text = inspect.getsource(family)
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and _is_number(node.value):
            name = ast.unparse(node.targets[0])
            assert node.end_lineno is not None
            yield name, "\n".join(lines[max(0, node.lineno - 2) : node.end_lineno])


def _is_number(value: ast.expr) -> bool:
    """Whether an expression is made of numbers alone."""
    numbers = [node for node in ast.walk(value) if isinstance(node, ast.Constant)]
    return bool(numbers) and all(isinstance(node.value, int | float) for node in numbers)


def test_a_guess_lies_within_its_bound(entry: Entry) -> None:
    """Where a finding names no bound, it is that of the input, and the finding has to be about the input."""
    for case, finding in found(entry.id):
        for offer in offers(case.diagnosis, [finding]):
            if offer.proposal.basis == "bound":
                said = f"{case.name}: {offer.proposal.id}"
                assert offer.told.likely is None, said
                assert offer.proposal.most is not None or side_of(finding.cause) == "input", said
                assert offer.likely <= offer.told.high, said


def test_each_treatment_is_named_by_a_remedy_or_by_the_plan_of_a_proof() -> None:
    offered = [proposal for entry in SHELF.values() for _, proposal in proposed(entry)]
    named = {one.name for proposal in offered for one in proposal.treatments}
    assert set(TREATMENTS) - named == {"replay"}  # which proving itself orders
