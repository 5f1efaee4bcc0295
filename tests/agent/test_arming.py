"""The agent arms once, waits for the user's imports, keeps its mistakes inside, stops and leaves."""

import importlib
import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from bottleneck_doctor.agent import clocks, wire
from bottleneck_doctor.agent.hooks import Finder
from bottleneck_doctor.agent.wire import NOTHING
from tests.agent.torch_server import server
from tests.agent.watching import AGENT, INJECT, PATIENCE_S, plain, said, watched
from tests.house.source import ROOT


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


ARMS_ITSELF = f"""
import json, sys
sys.path.insert(0, {str(AGENT.parents[1])!r})
finders = list(sys.meta_path)
from bottleneck_doctor.agent import arm
arm()
print(json.dumps({{"same": finders == sys.meta_path}}))
"""


@pytest.mark.parametrize("folder", ["", "/nowhere/at/all", "run"])
def test_a_script_may_arm_itself_where_there_is_a_run_folder(folder: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    told = said(plain(tmp_path, ARMS_ITSELF, BDOC_RUN=folder and str(tmp_path / folder)))
    assert told["same"] is not bool(list((tmp_path / "run").iterdir()))
    assert told["same"] is (folder != "run")


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
    (tmp_path / "train.py").write_text(TRAINS)
    door = {"BDOC_RUN": str(run), "BDOC_AGENT": str(AGENT), "PYTHONPATH": str(INJECT)}
    assert server().run(["train.py"], tmp_path, {**os.environ, **door}, PATIENCE_S) == (0, b"6 steps\n", b"")
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


@pytest.fixture
def _nothing_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def module(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.py").write_text(text)


@pytest.mark.usefixtures("_nothing_stays")
def test_the_callback_gets_the_complete_module(tmp_path: Path) -> None:
    module(tmp_path, "wanted_one", "first = 1\nlast = 2\n")
    seen: list[ModuleType] = []
    Finder().add({"wanted_one": seen.append})
    assert not seen
    wanted = importlib.import_module("wanted_one")
    assert (seen, wanted.last) == ([wanted], 2)
    assert "exec_module" not in vars(wanted.__spec__.loader), "the loader is as it was"  # type: ignore[union-attr]


@pytest.mark.usefixtures("_nothing_stays")
def test_a_module_that_fails_fails_as_without_us(tmp_path: Path) -> None:
    module(tmp_path, "broken_one", "raise RuntimeError('theirs')\n")
    seen: list[ModuleType] = []
    Finder().add({"broken_one": seen.append, "missing_one": seen.append})
    with pytest.raises(RuntimeError, match="theirs"):
        importlib.import_module("broken_one")
    with pytest.raises(ModuleNotFoundError, match="missing_one"):
        importlib.import_module("missing_one")
    assert (seen, "broken_one" in sys.modules) == ([], False)


# Kernels without Yama refuse the call: it is written down before it reaches them.
SCRIPT = """
import ctypes, json, os, sys
from bottleneck_doctor.agent import torch_setup

class Pretended:
    def __init__(self, name):
        self.name = name

    def prctl(self, *given):
        print(json.dumps([os.getpid(), *(getattr(one, "value", one) for one in given)]), flush=True)

if len(sys.argv) > 1:
    ctypes.CDLL = Pretended
else:
    sys.modules["ctypes"] = None
torch_setup.let_py_spy_in()
print(json.dumps(os.getpid()), flush=True)
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
print(json.dumps(child), flush=True)
"""


def told(*arguments: str, **environ: str) -> list[object]:
    command = [sys.executable, "-c", SCRIPT, *arguments]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(ROOT), **environ}, capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_process_and_its_forked_children_name_the_supervisor() -> None:
    first, own, second, child = told("pretend", BDOC_TRACER="4711")
    assert first == [own, 0x59616D61, 4711, 0, 0, 0]
    assert second == [child, 0x59616D61, 4711, 0, 0, 0]


@pytest.fixture
def _fresh() -> None:
    clocks._forget()


def test_a_thread_that_ends_leaves_no_descriptor_open() -> None:
    """A script that fetches in a new thread each epoch ran out of them."""
    before = os.listdir("/proc/self/fd")
    for _ in range(8):
        thread = threading.Thread(target=lambda: (clocks.run_queue(), clocks.io_books()))
        thread.start()
        thread.join()
    assert len(os.listdir("/proc/self/fd")) <= len(before)


@pytest.mark.usefixtures("_fresh")
def test_bytes_read_are_counted_without_our_own_reading(tmp_path: Path) -> None:
    if clocks.io_books()[1] == NOTHING:
        pytest.skip("this kernel keeps no io books")
    file = tmp_path / "data"
    file.write_bytes(b"x" * 5000)
    handle = os.open(file, os.O_RDONLY)
    try:
        before = clocks.io_books(counting_itself=True)
        os.pread(handle, 5000, 0)
        after = clocks.io_books()
    finally:
        os.close(handle)
    assert (after[1] - before[1], after[2] - before[2]) == (5000, 1)
