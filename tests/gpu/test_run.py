"""The GPU harness rehearses on the CPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bottleneck_doctor.findings.registry import entries, offered
from tests.gpu import run
from tests.gpu.expected import FOLDER, PATIENTS, script
from tests.gpu.first import compared
from tests.gpu.measure import Ward
from tests.gpu.unharmed import Waits, waits
from tests.lab.run import execute
from tests.patients.patient import Patient


@pytest.mark.slow
@pytest.mark.long
def test_without_a_device_one_line_says_so() -> None:
    done = execute([sys.executable, "-m", "tests.gpu.run"], CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "no CUDA device here, or no torch that was built for it: nothing was measured\n"


@pytest.mark.slow
@pytest.mark.long
def test_a_rehearsal_goes_through_a_patient_and_the_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    chosen = ["--rehearse", "--only", "optimizer-for-loop,cost-5ms", "--write", str(page)]
    assert run.main([*chosen, "--data", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "| optimizer-fused | " in told, "the twin was measured"
    assert "steps of 5 ms under bdoc: median" in told
    assert "failed" not in told
    assert "## a rehearsal on the CPU\n" in page.read_text()


@pytest.mark.parametrize("patient", PATIENTS, ids=lambda one: one.name)
def test_what_is_expected_can_be_offered_on_a_gpu(patient: Patient) -> None:
    reach = {one.id: one.reach.devices for one in entries()}
    for remedy in patient.remedies or ():
        assert any("CUDA" in reach[finding] for finding in offered()[remedy]), remedy


# All in one process: importing torch thirty times would take longer than all the rest.
DRIVER = """\
import runpy, sys
folder, out, data, *names = sys.argv[1:]
sys.path.insert(0, folder)
for name in names:
    for cure in ([], ["--cured"]):
        truth = f"{out}/{name}{''.join(cure)}.json"
        fixed = ["--device", "cpu", "--steps", "4", "--data", data, "--truth", truth, *cure]
        sys.argv = [f"{folder}/{name}.py", *fixed]
        print(name, *cure, end=" ")
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        except SystemExit as end:
            print("ended with", end.code)
"""


def run_patients(*arguments: str) -> subprocess.CompletedProcess[str]:
    return execute([sys.executable, *arguments])


@pytest.mark.slow
@pytest.mark.long
def test_all_rehearse_sick_and_cured(tmp_path: Path) -> None:
    names = [script(one).stem for one in PATIENTS]
    done = run_patients("-c", DRIVER, str(FOLDER), str(tmp_path), str(tmp_path), *names)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert len(lines) == 2 * len(PATIENTS)
    for name, line in zip([name for name in names for _ in range(2)], lines, strict=True):
        if "ended with 77" in line:  # no disk below the folder of the tests
            assert name == "starved_by_storage"
            continue
        assert " step 4 loss " in line, line
    for path in tmp_path.glob("*.json"):
        truth = json.loads(path.read_text())
        assert 0 <= truth["exposed_wait_fraction"] < 1, path.name
        assert 0 < truth["sample_mean_s"] <= truth["step_mean_s"] <= truth["run_mean_s"], path.name


@pytest.mark.slow
@pytest.mark.long
def test_calls_are_counted_while_every_step_is_looked_at_closely(tmp_path: Path) -> None:
    """The script finds bdoc's agent where there is one, and only there; a CPU has no such calls."""
    fixed = ["--device", "cpu", "--data", str(tmp_path)]
    alone = run_patients(str(FOLDER / "every_call.py"), *fixed, "--steps", "3")
    assert alone.stdout.startswith("nobody looks\n")
    assert waits(Ward(tmp_path, tuple(fixed))) == Waits({}, {})


@pytest.mark.slow
@pytest.mark.long
def test_a_training_is_compared_on_the_cpu_and_no_device_is_seen(tmp_path: Path) -> None:
    equal, seen = compared("forks", 40, tmp_path)
    assert (equal.right, equal.found) == (True, "the same, status 0")
    assert not seen.right
