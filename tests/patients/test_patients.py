"""The patients under bdoc: unharmed, and diagnosed right. The whole table is `python -m tests.accuracy`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.lab.judge import Taken, judge
from tests.lab.patients import Plain, Watched, limited, plain, watched
from tests.lab.run import BDOC, execute
from tests.patients.expected import PATIENTS, script

pytestmark = [pytest.mark.slow, pytest.mark.long]

Both = Callable[[str], tuple[Plain, Watched]]
BY_NAME = {patient.name: patient for patient in PATIENTS}
# As many shapes of loop as there are: workers by fork, threads, generators, closures, child processes,
# rollouts and updates, no optimizer.
UNHARMED = """decode-bound ipc-many-tensors worker-respawn remote-storage-latency logging-blocking
    checkpoint-blocking prefetch-thread get-batch lbfgs-closure http-generator ppo-maze
    updated-by-hand""".split()
DIAGNOSED = {"loader-in-main": 3.0, "sleeping-loader": 4.0, "healthy-balanced": 4.0, "too-short": None}
EACH = [pytest.param(name, marks=[pytest.mark.alone] if time else []) for name, time in DIAGNOSED.items()]


@pytest.fixture(autouse=True)
def _two_cores() -> Iterator[None]:
    """The patients are built for two cores; their processes inherit these."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:2])
    yield
    os.sched_setaffinity(0, allowed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("patients")


def length(name: str) -> list[str]:
    seconds = DIAGNOSED[name]
    return [] if seconds is None else ["--seconds", str(seconds)]


@pytest.fixture(scope="module")
def both(folder: Path) -> Both:
    """The same run without and with bdoc, taken once for all tests of this file."""

    @cache
    def taken(name: str) -> tuple[Plain, Watched]:
        patient = BY_NAME[name]
        return plain(patient, folder, length(name)), watched(patient, folder, length(name))

    return taken


@pytest.mark.parametrize("name", UNHARMED)
def test_output_and_status_are_the_same_with_and_without_bdoc(name: str, folder: Path) -> None:
    steps = "8" if name == "ppo-maze" else "24"  # each a rollout
    alone = plain(BY_NAME[name], folder, ["--steps", steps])
    seen = watched(BY_NAME[name], folder, ["--steps", steps])
    assert alone.stdout.startswith(f"step {steps} loss ")
    assert (seen.stdout, seen.status) == (alone.stdout, alone.status), seen.stderr


def test_a_script_that_refuses_its_arguments_says_so_itself() -> None:
    alone, seen = (
        execute([*prefix, str(script(BY_NAME["loader-in-main"])), "--nonsense"])
        for prefix in ([sys.executable], [*BDOC, "run", "-o", os.devnull])
    )
    assert (seen.returncode, seen.stdout) == (alone.returncode, alone.stdout) == (2, "")
    assert alone.stderr in seen.stderr


@pytest.mark.parametrize("name", EACH)
def test_a_patient_is_diagnosed_right(name: str, both: Both) -> None:
    patient = BY_NAME[name]
    alone, seen = both(name)
    assert (seen.stdout, seen.status) == (alone.stdout, alone.status), seen.stderr
    assert seen.report is not None, seen.stderr
    judgement = judge(patient, seen.report, Taken(seen.truth, limited=limited(patient)))
    assert judgement.bound in patient.bounds
    assert judgement.cause in patient.causes
    assert judgement.remedy_right is not False, judgement.remedy
    assert not judgement.hurts
    if patient.wait_tolerance is not None:
        # Short runs on a machine that others use too: looser than the published table.
        assert judgement.wait == pytest.approx(judgement.wait_truth, abs=0.05)


@pytest.mark.alone
def test_a_sleeping_loader_gets_the_speedup_it_was_promised(folder: Path, both: Both) -> None:
    patient = BY_NAME["sleeping-loader"]
    sick, seen = both(patient.name)
    cured = plain(patient, folder, length(patient.name), cured=["--cured"])
    assert seen.report is not None, seen.stderr
    sick_s, cured_s = ([run.truth["step_mean_s"]] for run in (sick, cured))
    judgement = judge(patient, seen.report, Taken(seen.truth, sick_s, cured_s))
    assert judgement.predicted is not None, "no prediction for the remedy that the twin applies"
    assert judgement.measured is not None
    assert judgement.predicted[1] / judgement.measured == pytest.approx(1.0, abs=0.4)


@pytest.mark.alone
@pytest.mark.parametrize("name", ["collate-bound", "ipc-overhead"])
def test_the_cured_twin_trains_the_same_only_faster(name: str, folder: Path) -> None:
    sick, cured = (
        plain(BY_NAME[name], folder, ["--steps", "120"], cured=cured) for cured in ([], ["--cured"])
    )
    assert sick.stdout == cured.stdout
    assert sick.truth["step_mean_s"] > 1.3 * cured.truth["step_mean_s"]
