"""Arming happens once, leaves broken neighbours alone, and needs a run folder."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from bottleneck_doctor.agent import wire
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


def _python(environ: dict[str, str], code: str = "print('trained')") -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BDOC_", "PYTHON"))}
    command = [sys.executable, "-c", code]
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


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")


@needs_root
@pytest.mark.parametrize(
    "what", ["another's folder", "a link", "another's control file", "a control file cut short"]
)
def test_a_run_folder_that_another_user_made_is_not_obeyed(what: str, tmp_path: Path) -> None:
    """Of that name, when a process has outlived the folder of its run: it says "stop after one step"."""
    run = tmp_path / "run"
    run.mkdir()
    control = run / "control"
    control.write_bytes(struct.pack("<q", 1).ljust(wire.CONTROL_BYTES if "short" not in what else 8, b"\0"))
    if what == "a link":
        run.rename(tmp_path / "moved")
        run.symlink_to(tmp_path / "moved")
    elif "short" not in what:
        os.chown(control, 65534, 65534)
        os.chown(run, 65534 if "folder" in what else 0, 0)
    seen = _python({"BDOC_RUN": str(run), "BDOC_AGENT": str(AGENT), "PYTHONPATH": str(INJECT)}, TRAINS)
    assert (seen.returncode, seen.stdout) == (0, "6 steps\n")
    written = [one for one in run.glob("*.rows") if one.stat().st_uid == 0]
    assert bool(written) is ("control" in what)


@needs_root
def test_pipes_and_files_of_others_are_not_opened(tmp_path: Path) -> None:
    """A pipe without a reader would hold the training up for ever."""
    names = {name: tmp_path / name for name in ("ours", "theirs", "pipe", "link", "folder")}
    names["ours"].touch()
    names["theirs"].touch()
    os.chown(names["theirs"], 65534, 65534)
    os.mkfifo(names["pipe"])
    names["link"].symlink_to(names["ours"])
    names["folder"].mkdir()
    opened = {}
    for name, path in names.items():
        for flags in (os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_APPEND):
            try:
                os.close(wire.open_ours(path, flags))
                opened[name] = opened.get(name, 0) + 1
            except OSError:
                pass
    assert opened == {"ours": 2}


TRAINS = """
import torch
from torch.utils.data import DataLoader
from time import sleep
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for steps, batch in enumerate(DataLoader(torch.ones(12, 2), batch_size=2), 1):
    model(batch).sum().backward()
    optimizer.step()
    sleep(0.004)  # so that each step is looked at
print(steps, "steps")
"""


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
