"""A remedy is offered where the line is known to be what the remedy is about; else only the place is said."""

import builtins
import re
import subprocess
from dataclasses import replace
from textwrap import indent

import pytest

from bottleneck_doctor.findings.facts import BREAKS, GUARDS, Instead, advised, place_of
from bottleneck_doctor.findings.lines import line_evidence
from bottleneck_doctor.findings.registry import entries
from bottleneck_doctor.findings.remedies import LINE
from bottleneck_doctor.model.code import FunctionSource, Location
from bottleneck_doctor.model.diagnosis import Diagnosis, Finding
from bottleneck_doctor.model.report import Abstention, Fix
from bottleneck_doctor.render.document import Lengths
from bottleneck_doctor.source.code import free_names
from tests.findings.builders import loop_of
from tests.findings.cases import cases_of


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


def test_a_line_that_makes_what_the_loss_is_made_of_is_named_as_such() -> None:
    finding = found("host-python-hot", "the batch is prepared")
    assert finding.location is not None
    assert finding.location.function == "prepare"
    assert "what this line makes becomes part of the loss" in [one.text for one in finding.evidence]


def test_snippets_quote_the_line_that_is_meant() -> None:
    measure = fix_of(found("host-python-hot", "a confusion matrix"), "metrics-less")
    assert measure.snippet == "if STEP % 10 == 0:\n    confusion(logits, y)"
    assert measure.location is not None
    assert (measure.location.file, measure.location.line) == ("train.py", 30)
    commit = fix_of(found("storage-latency-bound", "a commit per sample"), "write-less")
    assert commit.snippet.startswith("if N % 64 == 0:\n    self.base.commit()\n")
    assert commit.location is not None
    assert (commit.location.file, commit.location.line) == ("/data/train.py", 31)
    dump = fix_of(found("logging-blocking", "weights dumped into a file"), "log-every-n")
    assert dump.snippet == "if STEP % 50 == 0:\n    track(file, model)"
    save = fix_of(found("checkpoint-blocking", "a save every ten steps"), "checkpoint-less")
    assert "log" not in save.snippet
    assert "torch.save" in save.snippet


def test_a_place_is_the_users_own_where_it_is_known() -> None:
    sick = diagnosis_of("decode-bound", "memory for all of them")
    assert sick.loader is not None
    library = Location("/x/site-packages/torchvision/datasets/mnist.py", 131)
    loader = replace(sick.loader, dataset_location=library)
    assert place_of(replace(sick, loader=loader)) == sick.loader.location
    assert place_of(replace(sick, loader=replace(loader, location=None))) == library


def test_a_function_is_named_by_its_own_line_and_work_by_what_it_is() -> None:
    name = "a row of a data frame"
    assert "it reads a data frame" in [one.text for one in found("python-sample-code-hot", name).evidence]
    profile = diagnosis_of("python-sample-code-hot", name).profile
    first = profile.stacks[0]
    below = [replace(first, frames=[*first.frames[:3], f"save (/data/train.py:{n})"]) for n in (41, 42, 43)]
    sources = [*profile.sources, FunctionSource("/data/train.py", "save", 40, "def save():\n  a\n  b\n  c")]
    sick = replace(
        diagnosis_of("python-sample-code-hot", name), profile=replace(profile, stacks=below, sources=sources)
    )
    (line,) = line_evidence(sick)
    assert (line.text, line.value) == ("share of data-loading samples in train.py:40 save", 1.0)


KNOWN = {*vars(builtins), "self", "torch", "DataLoader", "DistributedDataParallel", "fully_shard"}
SHELL = re.compile(r"([A-Z_]+=\S+ )*(docker|nvidia-smi|python|renice|rsync|torchrun|ulimit)\b")


def can_be_copied(snippet: str) -> None:
    """It is no wider than a terminal of 80 columns, not cut off, and is Python or what a shell reads."""
    assert max((len(line) for line in snippet.splitlines()), default=0) <= LINE, snippet
    assert len(snippet.splitlines()) <= Lengths().snippet, snippet
    if SHELL.match(snippet):
        subprocess.run(["sh", "-n", "-c", snippet], check=True)
    else:
        compile(f"def _():\n    pass\n{indent(snippet, '    ')}", snippet, "exec")


@pytest.mark.parametrize("finding", [entry.id for entry in entries()])
def test_what_is_to_be_written_can_be_copied_from_a_terminal(finding: str) -> None:
    (entry,) = (one for one in entries() if one.id == finding)
    outcomes = [entry.ask(case.diagnosis) for case in cases_of(finding)]
    found = [proposal for one in outcomes if isinstance(one, Finding) for proposal in one.proposals]
    for snippet in {one.fix.snippet for one in (*entry.remedies, *found)}:
        can_be_copied(snippet)
    for snippet in {one.fix.snippet for one in entry.remedies if not SHELL.match(one.fix.snippet)}:
        made = re.findall(r"(?:def|class|as) (\w+)|^ *(?:from \S+ )?import (.*)", snippet, re.MULTILINE)
        source = FunctionSource("", "_", 1, f"def _():\n    pass\n{indent(snippet, '    ')}")
        names = free_names(source) - set(re.findall(r"\w+", str(made))) - KNOWN
        assert not [one for one in names if not re.match("self[.]|[A-Z_]+$", one)], snippet


@pytest.mark.parametrize(
    ("table", "reason", "said"),
    [
        (BREAKS, "Unsupported Tensor.item() call with capture_scalar_outputs=False", ".detach()"),
        (BREAKS, "Dynamic shape operator", "in place of X[MASK]"),
        (BREAKS, "Attempted to call function marked as skipped", "TORCH_LOGS=graph_breaks"),
        (GUARDS, "tensor 'x' size mismatch at index 0. expected 32, actual 17", ""),
        (GUARDS, "tensor 'x' stride mismatch at index 0. expected 1, actual 64", "contiguous"),
        (GUARDS, "GLOBAL_STATE changed: grad_mode ", "torch.no_grad()"),
        (GUARDS, "L['self'].step == 3", "torch.tensor(STEP)"),
    ],
)
def test_what_to_write_follows_from_what_torch_says(
    table: tuple[Instead, ...], reason: str, said: str
) -> None:
    assert said in advised(table, reason).snippet
    for one in table:
        can_be_copied(one.snippet)


def test_columns_spare_the_whole_function_and_what_is_prepared_pays_in_later_epochs_only() -> None:
    base = diagnosis_of("python-sample-code-hot", "a row of a data frame")
    half = replace(base.profile.stacks[0], count=45, running=44)
    rest = replace(half, frames=[one.replace(":32)", ":31)") for one in half.frames])
    halves = replace(base, profile=replace(base.profile, stacks=[half, rest, base.profile.stacks[1]]))
    for run, basis in ((halves, "replay"), (replace(halves, loop=loop_of(400, 1)), "bound")):
        outcome = ask("python-sample-code-hot", run)
        assert isinstance(outcome, Finding)
        columns, prepared = outcome.proposals
        assert (columns.factor, columns.basis, prepared.basis) == (prepared.factor, "replay", basis)
