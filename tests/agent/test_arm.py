"""Arming happens once, leaves broken neighbours alone, and needs a run folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.watching import AGENT, INJECT, plain, said, watched


def test_a_sitecustomize_of_the_users_that_raises_fails_as_without_us(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text("raise RuntimeError('theirs')\n")
    run = tmp_path / "run"
    run.mkdir()
    alone = _python({"PYTHONPATH": str(theirs)})
    door = {"BDOC_RUN": str(run), "BDOC_AGENT": str(AGENT), "PYTHONPATH": f"{INJECT}{os.pathsep}{theirs}"}
    seen = _python(door)
    assert (seen.returncode, seen.stdout) == (alone.returncode, alone.stdout) == (0, "trained\n")
    assert seen.stderr == alone.stderr
    assert "RuntimeError: theirs" in seen.stderr
    assert list(run.glob("*.rows")), "and the agent is there all the same"


def _python(environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BDOC_", "PYTHON"))}
    command = [sys.executable, "-c", "print('trained')"]
    return subprocess.run(command, env={**kept, **environ}, text=True, capture_output=True, check=False)


def test_arming_again_changes_nothing(tmp_path: Path) -> None:
    script = (
        "import json, sys\n"
        "agent = sys.modules['_bdoc_agent']\n"
        "finders = len(sys.meta_path)\n"
        "agent.arm()\n"
        "print(json.dumps({'finders': len(sys.meta_path) - finders, 'rows': agent.__name__}))\n"
    )
    told = watched(tmp_path, script)
    assert said(told)["finders"] == 0
    assert len(list(told.folder.glob("*.rows"))) == 1


def test_a_python_without_its_global_lock_is_left_alone(tmp_path: Path) -> None:
    """Pretended: two threads would write into one slot of the rows there."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text(
        "import sys\nsys._is_gil_enabled = lambda: False\n"
        "import bottleneck_doctor.agent as agent\nagent.arm()\n"
    )
    run = tmp_path / "run"
    run.mkdir()
    seen = _python({"BDOC_RUN": str(run), "PYTHONPATH": f"{theirs}{os.pathsep}{AGENT.parents[1]}"})
    assert (seen.returncode, seen.stdout, seen.stderr) == (0, "trained\n", "")
    assert list(run.iterdir()) == []


@pytest.mark.parametrize("folder", ["", "/nowhere/at/all"])
def test_without_a_run_folder_nothing_is_installed(folder: str, tmp_path: Path) -> None:
    script = (
        "import json, sys\n"
        f"sys.path.insert(0, {str(AGENT.parents[1])!r})\n"
        "finders = list(sys.meta_path)\n"
        "from bottleneck_doctor.agent import arm\n"
        "arm()\n"
        "print(json.dumps({'same': finders == sys.meta_path}))\n"
    )
    assert said(plain(tmp_path, script, BDOC_RUN=folder))["same"]


def test_a_script_may_arm_itself_where_the_door_is_shut(tmp_path: Path) -> None:
    run = tmp_path / "rows"
    run.mkdir()
    script = (
        "import sys\n"
        f"sys.path.insert(0, {str(AGENT.parents[1])!r})\n"
        "from bottleneck_doctor.agent import arm\n"
        "arm()\n"
        "print('{}')\n"
    )
    assert said(plain(tmp_path, script, BDOC_RUN=str(run))) == {}
    assert list(run.glob("*.rows"))
