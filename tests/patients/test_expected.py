"""The tables of trainings are complete; the trainings' own timers and limits hold."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch

from bottleneck_doctor.analyse.verdict import SENTENCES
from bottleneck_doctor.findings.registry import offered
from bottleneck_doctor.render.glossary import BOUNDS
from tests.gpu import expected as on_gpus
from tests.patients import ledger
from tests.patients.confine import CGROUPS, confined
from tests.patients.expected import PATIENTS, Patient, ReadLimit, script
from tests.patients.ledger import Ledger
from tests.patients.patient import ids

STAGE = set("ledger props expected patient confine disk_stranger http_store object_server two_ranks".split())
GPU_STAGE = set("stage clock speed traced tracer every_call ways".split())
Table = tuple[Sequence[Patient], Callable[[Patient], Path], set[str]]


@pytest.fixture(params=["own", "gpu"])
def table(request: pytest.FixtureRequest) -> Table:
    """Trainings, where the script of each is, and what else lies in their folder."""
    own, gpu = (PATIENTS, script, STAGE), (on_gpus.PATIENTS, on_gpus.script, GPU_STAGE)
    return own if request.param == "own" else gpu


def test_every_script_is_a_patient_and_every_patient_has_a_script(table: Table) -> None:
    patients, script_of, stage = table
    scripts = {script_of(one) for one in patients}
    assert len(scripts) == len(patients)
    folder = next(iter(scripts)).parent
    files = {path for path in folder.glob("*.py") if not path.stem.startswith(("test_", "__"))}
    assert {path for path in files if path.stem not in stage} == scripts


def test_a_patient_is_described_in_the_words_of_the_report(table: Table) -> None:
    for one in table[0]:
        assert one.bounds | one.bounds_without_limit <= BOUNDS.keys(), one.name
        assert one.causes <= SENTENCES.keys(), one.name
        assert (one.remedies or frozenset()) | one.never <= offered().keys(), one.name


def test_a_twin_takes_an_acceptable_remedy(table: Table) -> None:
    for one in table[0]:
        assert one.twin is None or one.remedies is None or one.twin in one.remedies, one.name
        assert one.twin is None or "cured" in table[1](one).read_text(), one.name
        assert not (one.never & (one.remedies or frozenset())), one.name


class Clock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def perf_counter(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(ledger, "time", clock)
    return clock


def batches(clock: Clock, count: int, each_s: float) -> Iterator[int]:
    for number in range(count):
        clock.now_s += each_s
        yield number
    clock.now_s += 0.5  # what the end of an epoch costs


def train(book: Ledger, clock: Clock, epoch_steps: int, wait_s: float, step_s: float) -> None:
    for _ in book.epochs():
        for _ in book.loop(batches(clock, epoch_steps, wait_s)):
            clock.now_s += step_s


def test_wait_is_the_time_inside_next(clock: Clock) -> None:
    book = Ledger(steps=61)
    train(book, clock, epoch_steps=100, wait_s=0.03, step_s=0.01)
    truth = book.truth()
    assert truth["steps"] == 40
    assert truth["wall_s"] == pytest.approx(40 * 0.04)
    assert truth["wait_fraction"] == pytest.approx(0.75)


def test_an_evaluation_belongs_to_no_step(clock: Clock) -> None:
    book = Ledger(steps=61)
    for _ in book.epochs():
        for _ in book.loop(batches(clock, 40, 0.03)):
            clock.now_s += 0.01
        with book.aside():
            clock.now_s += 7.0
    truth = book.truth()
    assert truth["aside_s"] == pytest.approx(7.0)
    assert truth["wall_s"] == pytest.approx(40 * 0.04 + 0.5)


def test_the_truth_of_epochs_that_are_ended_is_written_too(clock: Clock, tmp_path: Path) -> None:
    def training() -> None:
        book = Ledger(steps=30, truth=tmp_path)
        for _ in book.epochs():
            for number in book.loop(batches(clock, 30, 0.03)):
                book.note(torch.tensor(number / 3))
                if number == 20:
                    raise SystemExit(0)

    with pytest.raises(SystemExit):
        training()
    truth = json.loads((tmp_path / f"{os.getpid()}.json").read_text())
    assert truth["first_losses"][1] == torch.tensor(1 / 3).item().hex()
    assert len(truth["first_losses"]) == 21
    assert truth["order"] is None


HELD = Patient(
    "held", "ailment", ids("io"), ids("host.memory"), "", memory_bytes=1 << 30, quota_cores=0.5,
    limit=ReadLimit(bytes_per_s=1 << 30),
)  # fmt: skip


def test_groups_that_were_made_hold_the_command_and_are_gone_afterwards(tmp_path: Path) -> None:
    with confined(HELD, tmp_path) as prefix:
        if not prefix:
            pytest.skip("this machine lets nobody make control groups")
        show = [*prefix, "cat", "/proc/self/cgroup"]
        shown = subprocess.run(show, capture_output=True, text=True, check=True).stdout
        assert "bdoc-patient-" in shown
    assert not list(CGROUPS.glob("**/bdoc-patient-memory-*"))
