"""The patients under bdoc: unharmed, and diagnosed right. The whole table is `python -m tests.accuracy`."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.judge import Taken, judge
from tests.lab.patients import limited, plain, watched
from tests.patients.expected import PATIENTS

pytestmark = [pytest.mark.slow, pytest.mark.long]

BY_NAME = {patient.name: patient for patient in PATIENTS}
# As many shapes of loop as there are: workers by fork, threads, generators, closures, child processes,
# rollouts and updates, no optimizer.
UNHARMED = "decode-bound prefetch-thread lbfgs-closure http-generator ppo-maze updated-by-hand".split()
ALONE = pytest.mark.alone  # with cores taken by others, workers are not advised


@pytest.fixture(autouse=True)
def _two_cores() -> Iterator[None]:
    """The patients are built for two cores; their processes inherit these."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:2])
    yield
    os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize("name", UNHARMED)
def test_output_and_status_are_the_same_with_and_without_bdoc(name: str, tmp_path: Path) -> None:
    steps = "8" if name == "ppo-maze" else "24"  # each a rollout
    alone = plain(BY_NAME[name], tmp_path, ["--steps", steps])
    seen = watched(BY_NAME[name], tmp_path, ["--steps", steps])
    assert alone.stdout.startswith(f"step {steps} loss ")
    assert (seen.stdout, seen.status) == (alone.stdout, alone.status), seen.stderr


@pytest.mark.parametrize(
    ("name", "length"),
    [
        pytest.param("loader-in-main", ["--seconds", "3"], marks=ALONE),
        pytest.param("healthy-balanced", ["--seconds", "4"], marks=ALONE),
        ("too-short", []),
    ],
)
def test_a_patient_is_diagnosed_right(name: str, length: list[str], tmp_path: Path) -> None:
    patient = BY_NAME[name]
    seen = watched(patient, tmp_path, length)
    assert seen.status == 0, seen.stderr
    assert seen.report is not None, seen.stderr
    judgement = judge(patient, seen.report, Taken(seen.truth, limited=limited(patient)))
    assert (judgement.bound_right, judgement.cause_right) == (True, True)
    assert judgement.remedy_right is not False, judgement.remedy
    if patient.wait_tolerance is not None:
        # Short runs on a machine that others use too: looser than the published table.
        assert judgement.wait == pytest.approx(judgement.wait_truth, abs=0.05)
