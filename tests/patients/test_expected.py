"""The table of patients is complete and speaks the words of the report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.patients.expected import PATIENTS, Patient, ReadLimit, script
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
