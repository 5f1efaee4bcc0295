"""The tables of trainings are complete; the limits that trainings are held to leave nothing behind."""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bottleneck_doctor.analyse.verdict import SENTENCES
from bottleneck_doctor.findings.registry import offered
from bottleneck_doctor.render.glossary import BOUNDS
from tests.gpu import expected as on_gpus
from tests.patients.confine import CGROUPS, confined
from tests.patients.expected import PATIENTS, Patient, ReadLimit, script
from tests.patients.patient import ids

STAGE = set("ledger props expected patient confine http_store object_server two_ranks".split())
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
