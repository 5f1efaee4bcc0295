"""A remedy is offered where the line is known to be what the remedy is about; else only the place is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.hot_lines import Feeders
from bottleneck_doctor.findings import input as input_
from bottleneck_doctor.findings.parts import lines
from bottleneck_doctor.findings.parts.facts import place_of
from bottleneck_doctor.findings.registry import entries
from bottleneck_doctor.model.code import FunctionSource, Location
from bottleneck_doctor.model.diagnosis import Abstention, Diagnosis, Finding
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.loops import Epochs
from bottleneck_doctor.model.report import Fix
from tests.findings.cases import cases_of
from tests.findings.cases import input as input_cases


def ask(finding: str, diagnosis: Diagnosis) -> Finding | Abstention | None:
    return next(one for one in entries() if one.id == finding).ask(diagnosis)


def diagnosis_of(finding: str, name: str) -> Diagnosis:
    (case,) = (one for one in cases_of(finding) if one.name == name)
    return case.diagnosis


def found(finding: str, name: str) -> Finding:
    outcome = ask(finding, diagnosis_of(finding, name))
    assert isinstance(outcome, Finding)
    return outcome


def fix_of(finding: Finding, remedy: str) -> Fix:
    (fix,) = (proposal.fix for proposal in finding.proposals if proposal.id == remedy)
    return fix


@pytest.mark.parametrize(
    ("id", "case"), [("host-python-hot", "the batch is prepared"), ("augment-bound", "it is conversions")]
)
def test_where_only_the_place_is_known_no_remedy_is_offered(id: str, case: str) -> None:
    finding = found(id, case)
    assert finding.proposals == []
    assert finding.evidence


def test_of_a_line_that_makes_batches_at_least_the_most_is_said_that_it_can_bring() -> None:
    (proposal,) = found("python-sample-code-hot", "a line that takes long, and no more is known").proposals
    assert (proposal.id, proposal.basis) == ("precompute-deterministic", "bound"), (
        "its source leaves nothing to chance"
    )
    assert proposal.fix.location is not None


def test_work_that_a_library_may_leave_to_chance_is_not_said_to_be_the_same_each_time() -> None:
    unknown = "a line that takes long, and no more is known"
    case = next(one for one in cases_of("python-sample-code-hot") if one.name == unknown)
    profile = case.diagnosis.profile
    below = "apply (/x/site-packages/albumentations/core.py:9)"
    stacks = [replace(one, frames=[*one.frames, below]) for one in profile.stacks]
    sick = replace(case.diagnosis, profile=replace(profile, stacks=stacks))
    finding = ask("python-sample-code-hot", sick)
    proposals = finding.proposals if isinstance(finding, Finding) else []
    assert "precompute-deterministic" not in {one.id for one in proposals}


def test_a_line_that_makes_what_the_loss_is_made_of_is_named_as_such() -> None:
    finding = found("host-python-hot", "the batch is prepared")
    assert finding.location is not None
    assert finding.location.function == "prepare"
    assert "what this line makes becomes part of the loss" in [one.text for one in finding.evidence]


def test_snippets_quote_the_line_that_is_meant() -> None:
    measure = fix_of(found("host-python-hot", "a confusion matrix"), "metrics-less")
    assert measure.snippet == "if step % 10 == 0:\n    confusion(logits, y)"
    assert measure.location is not None
    assert (measure.location.file, measure.location.line) == ("train.py", 30)
    dump = fix_of(found("logging-blocking", "weights dumped into a file"), "log-every-n")
    assert dump.snippet == "if step % 50 == 0:\n    track(file, model)"
    save = fix_of(found("checkpoint-blocking", "a save every ten steps"), "checkpoint-less")
    assert "log" not in save.snippet
    assert "torch.save" in save.snippet


def test_what_is_looped_over_is_not_called_parsing() -> None:
    (proposal,) = (
        one
        for one in found("python-sample-code-hot", "a loop over elements").proposals
        if one.id == "columnar-numpy"
    )
    assert proposal.title == "work on whole arrays instead of element by element"


def test_what_is_drawn_from_a_buffer_that_the_loop_changes_can_be_kept_up_to_date(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "is_fed_back", lambda profile, outside: True)
    assert offered("python-sample-code-hot", "a line that takes long, and no more is known") == {
        "cheaper-preprocess"
    }


def offered(finding: str, name: str) -> set[str]:
    return {proposal.id for proposal in found(finding, name).proposals}


def test_what_is_evaluated_once_is_not_to_be_evaluated_less_often() -> None:
    assert offered("evaluation-heavy", "one epoch, one evaluation") == {"eval-no-grad"}


def test_the_training_loader_is_not_told_again_to_have_workers() -> None:
    finding = found("evaluation-heavy", "over the training data")
    assert {proposal.id for proposal in finding.proposals} == {"eval-less"}
    assert finding.location is None


def test_nothing_is_kept_for_a_second_epoch_that_never_comes() -> None:
    sick = diagnosis_of("decode-bound", "memory for all of them")
    assert sick.loop is not None
    once = replace(sick, loop=replace(sick.loop, epochs=Epochs([0.0], [0.0], [0.0], [400])))
    cut = replace(once.profile, run=replace(once.profile.run, stopped_by="max-steps"))
    outcomes = [ask("decode-bound", one) for one in (sick, once, replace(once, profile=cut))]
    kept = [{proposal.id for proposal in one.proposals} for one in outcomes if isinstance(one, Finding)]
    assert ["cache-decoded-ram" in one for one in kept] == [True, False, True]


def test_memory_is_counted_with_what_the_snippet_keeps() -> None:
    assert "cache-decoded-ram" not in offered("decode-bound", "memory for none but finished samples")


def test_a_place_is_the_users_own_where_it_is_known() -> None:
    sick = diagnosis_of("decode-bound", "memory for all of them")
    assert sick.loader is not None
    library = Location("/x/site-packages/torchvision/datasets/mnist.py", 131)
    loader = replace(sick.loader, dataset_location=library)
    assert place_of(replace(sick, loader=loader)) == sick.loader.location
    assert place_of(replace(sick, loader=replace(loader, location=None))) == library


def test_rows_of_a_database_are_not_picked_in_one_gather() -> None:
    case = next(one for one in cases_of("per-sample-indexing") if one.outcome == "fires")
    assert isinstance(ask("per-sample-indexing", case.diagnosis), Finding)
    asks = "def __getitem__(self, i):\n    return self.base.execute(ONE, (i,)).fetchone()\n"
    fetch = "fetch (/x/site-packages/torch/utils/data/_utils/fetch.py:54)"
    loader = case.diagnosis.loader
    assert loader is not None
    row = Stack(loader.pid, "trainer", "MainThread", [fetch, "Rows.__getitem__ (/data/rows.py:31)"], 90, 90)
    source = FunctionSource("/data/rows.py", "__getitem__", 30, asks)
    profile = replace(case.diagnosis.profile, stacks=[row], sources=[source])
    assert ask("per-sample-indexing", replace(case.diagnosis, profile=profile)) is None


@pytest.mark.parametrize(
    ("head", "remedy"),
    [
        ("with self.session:", "shorten-lock"),
        ("with lock:", "shorten-lock"),
        ("with open(path) as file:", "workers-auto"),
        ("if self.session:", "workers-auto"),
    ],
)
def test_threads_that_take_turns_at_a_lock_are_told_to_wait_outside_of_it(
    monkeypatch: pytest.MonkeyPatch, head: str, remedy: str
) -> None:
    text = f"def label(self, rows):\n    {head}\n        return ask(rows)\n"
    base = input_cases._asking()
    profile = replace(base.profile, sources=[FunctionSource("/data/train.py", "label", 36, text)])
    stack = Stack(0, "trainer", "Thread-1", ["label (/data/train.py:37)"], 100)
    feeders = Feeders(asleep=4, stacks=(stack,))
    monkeypatch.setattr(input_, "find_feeders", lambda profile, pid: feeders)
    monkeypatch.setattr(input_, "hottest_place", lambda run: Location("/data/train.py", 37, "label"))
    finding = ask("loader-in-main", replace(base, profile=profile))
    assert isinstance(finding, Finding)
    assert finding.proposals[0].id == remedy
