"""Every GPU patient rehearses on the CPU: its Python runs, sick and cured, and tells its truth."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.expected import FOLDER, PATIENTS, script
from tests.gpu.measure import Ward
from tests.gpu.unharmed import Waits, waits
from tests.lab.run import execute

pytestmark = [pytest.mark.slow, pytest.mark.long]

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


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return execute([sys.executable, *arguments])


def test_all_rehearse_sick_and_cured(tmp_path: Path) -> None:
    names = [script(one).stem for one in PATIENTS]
    done = run("-c", DRIVER, str(FOLDER), str(tmp_path), str(tmp_path), *names)
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


def test_a_script_explains_itself_and_needs_a_device_unless_told_otherwise() -> None:
    path = str(script(PATIENTS[0]))
    told = run(path, "--help")
    assert told.returncode == 0
    assert "--cured" in told.stdout
    assert "Cure: workers." in " ".join(told.stdout.split())
    refused = execute([sys.executable, path], CUDA_VISIBLE_DEVICES="")
    assert refused.returncode == 77
    assert refused.stderr.startswith("no CUDA device")


def test_a_starved_rehearsal_says_so_itself(tmp_path: Path) -> None:
    truth, trace = tmp_path / "truth.json", tmp_path / "trace.json"
    path, data = str(FOLDER / "starved_by_cpu.py"), str(tmp_path)
    fixed = ["--device", "cpu", "--data", data]
    assert run(path, *fixed, "--steps", "40", "--truth", str(truth)).returncode == 0
    assert json.loads(truth.read_text())["exposed_wait_fraction"] > 0.8
    assert run(path, *fixed, "--trace", str(trace)).returncode == 0
    traced = json.loads(trace.read_text())
    assert (traced["steps"], traced["kernels"], traced["synchronising"]) == (20, 0, {})


def test_calls_are_counted_while_every_step_is_looked_at_closely(tmp_path: Path) -> None:
    """The script finds bdoc's agent where there is one, and only there; a CPU has no such calls."""
    fixed = ["--device", "cpu", "--data", str(tmp_path)]
    alone = run(str(FOLDER / "every_call.py"), *fixed, "--steps", "3")
    assert alone.stdout.startswith("nobody looks\n")
    assert waits(Ward(tmp_path, tuple(fixed))) == Waits({}, {})
