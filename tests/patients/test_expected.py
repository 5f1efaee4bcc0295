"""The table of trainings is complete; their own timers and limits hold."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.patients import ledger
from tests.patients.confine import CGROUPS, confined
from tests.patients.expected import PATIENTS, Patient, ReadLimit, script
from tests.patients.ledger import Ledger
from tests.patients.patient import Patient as PatientOfConfine
from tests.patients.patient import ids
from tests.patients.throttle import held_to

BOUNDS = set("cpu gpu io comm latency balanced inconclusive".split())
CAUSES = set(
    """input.preprocess input.collate input.indexing input.ipc input.storage input.network
    input.worker_startup input.oversubscribed input.wait
    host.python host.launch host.sync host.logging host.checkpoint host.gc
    host.memory host.evaluation model.compute model.threads device.compute device.transfer device.underfilled
    device.memory device.throttled device.shared comm.allreduce comm.straggler none""".split()
)
STAGE = set(
    """ledger props expected patient throttle confine disk_stranger http_store object_server two_ranks
    __init__""".split()
)

every_patient = pytest.mark.parametrize("patient", PATIENTS, ids=lambda patient: patient.name)


def test_every_script_is_a_patient_and_every_patient_has_a_script() -> None:
    files = {path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("test_")}
    assert files - STAGE == {script(patient).stem for patient in PATIENTS}


def test_names_are_unique() -> None:
    assert len({patient.name for patient in PATIENTS}) == len(PATIENTS)


@every_patient
def test_a_patient_is_described_in_the_words_of_the_report(patient: Patient) -> None:
    assert patient.bounds | patient.bounds_without_limit <= BOUNDS
    assert patient.causes <= CAUSES
    for name in (patient.remedies or frozenset()) | patient.findings | patient.never:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)


@every_patient
def test_a_twin_takes_an_acceptable_remedy(patient: Patient) -> None:
    assert patient.twin is None or patient.remedies is None or patient.twin in patient.remedies
    assert not (patient.never & (patient.remedies or frozenset()))


def test_without_the_right_to_slow_the_disk_the_command_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.patients.throttle.CGROUPS", tmp_path / "absent")
    with held_to(ReadLimit(bytes_per_s=1), tmp_path) as prefix:
        assert prefix == []


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


def test_the_end_of_an_epoch_is_waited_for_by_the_next_batch(clock: Clock) -> None:
    book = Ledger(steps=61)
    train(book, clock, epoch_steps=50, wait_s=0.03, step_s=0.01)
    assert book.truth()["wait_s"] == pytest.approx(40 * 0.03 + 0.5)


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


def test_the_loop_ends_after_the_steps_asked_for(clock: Clock) -> None:
    book = Ledger(steps=3)
    seen = [batch for _ in book.epochs() for batch in book.loop(batches(clock, 2, 0.1))]
    assert seen == [0, 1, 0]


def test_the_truth_is_written_when_the_epochs_end(clock: Clock, tmp_path: Path) -> None:
    book = Ledger(steps=30, truth=tmp_path / "truth.json")
    train(book, clock, epoch_steps=10, wait_s=0.03, step_s=0.01)
    assert json.loads((tmp_path / "truth.json").read_text()) == book.truth()


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


HELD = PatientOfConfine(
    "held", "ailment", ids("io"), ids("host.memory"), "", memory_bytes=1 << 30, quota_cores=0.5
)


def test_without_the_right_to_make_groups_the_command_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.patients.confine.CGROUPS", tmp_path / "absent")
    with confined(HELD, tmp_path) as prefix:
        assert prefix == []


def test_groups_that_were_made_hold_the_command_and_are_gone_afterwards(tmp_path: Path) -> None:
    with confined(HELD, tmp_path) as prefix:
        if not prefix:
            pytest.skip("this machine lets nobody make control groups")
        show = [*prefix, "cat", "/proc/self/cgroup"]
        shown = subprocess.run(show, capture_output=True, text=True, check=True).stdout
        assert "bdoc-patient-" in shown
    assert not list(CGROUPS.glob("**/bdoc-patient-memory-*"))
