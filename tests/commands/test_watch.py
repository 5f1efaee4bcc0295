"""``bdoc watch`` beside real runs: what it finds and says, how it ends, and that it touches nothing."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.commands.app import main
from bottleneck_doctor.launch import run_registry
from bottleneck_doctor.launch.run_registry import Running
from bottleneck_doctor.launch.start import FOLDER_PREFIX
from bottleneck_doctor.model.run import Announcement, Lifetime
from tests.commands.running import START
from tests.lab.run import ours_first
from tests.launch.conftest import Terminal, until

# Ends when the test has left a mark; the alarm ends forgotten ones.
WAITING = """
import os, signal, sys, time
signal.alarm(60)
open("ready", "w").close()
while not os.path.exists("end"):
    time.sleep(0.01)
sys.exit(3)
"""
TRAINING = """
import os, signal, torch
from torch.utils.data import DataLoader, TensorDataset
signal.alarm(100)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(1 << 16, 8), torch.randint(0, 2, (1 << 16,)))
while not os.path.exists("end"):
    for x, y in DataLoader(data, batch_size=8):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if os.path.exists("end"):
            break
"""


class Place:
    """A folder with a job in it, and those who watch."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tmp = folder, folder / "tmp"
        self.tmp.mkdir()
        self.started: list[subprocess.Popen[str]] = []
        mine = {"TMPDIR": str(self.tmp), "TERM": "xterm", "PYTHONPATH": ours_first()}
        self.environ = {**os.environ, **mine}

    def bdoc(self, *line: str, **options: Any) -> subprocess.Popen[str]:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        environ = {**self.environ, **options.pop("env", {})}
        command = [sys.executable, "-c", START, *line]
        self.started.append(subprocess.Popen(command, cwd=self.folder, env=environ, **options))
        return self.started[-1]

    def job(self, source: str, *options: str) -> tuple[subprocess.Popen[str], Path]:
        """A run that has announced its training, and its folder."""
        (self.folder / "train.py").write_text(source)
        started = self.bdoc("run", "--quiet", *options, "train.py", start_new_session=True)
        return started, until(lambda: self._announced(started.pid), "a run folder")

    def _announced(self, pid: int) -> Path | None:
        for folder in self.tmp.glob(f"{FOLDER_PREFIX}*"):
            said = run_registry.read_announcement(folder)
            if said is not None and said.training is not None and said.supervisor.pid == pid:
                return folder
        return None

    def end(self) -> None:
        (self.folder / "end").touch()

    def clear(self) -> None:
        self.end()
        for process in self.started:
            if process.poll() is None:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    process.kill()
            process.communicate()


@pytest.fixture
def place(folder: Path) -> Iterator[Place]:
    made = Place(folder)
    yield made
    made.clear()


def first_that(process: subprocess.Popen[str], fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first look in its JSON that fits; other looks pass by."""
    assert process.stdout is not None
    for line in process.stdout:
        if fits(look := json.loads(line)):
            return dict(look)
    pytest.fail("it ended before that was seen")


def run_of(pid: int, script: str) -> Running:
    said = Announcement(Lifetime(pid, 1), "here", ["python", script], script, "/data", "now", 5, "/p.json")
    return Running(Path("/tmp") / f"{FOLDER_PREFIX}{pid}", said)


def test_without_a_run_one_line_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_registry, "find_runs", list)
    assert main(["watch"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("bdoc: nothing is running: start `bdoc run train.py` in another terminal")
    assert told.count("\n") == 1


def test_of_several_runs_a_list_says_which_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_registry, "find_runs", lambda: [run_of(11, "a.py"), run_of(22, "b.py")])
    assert main(["watch"]) == 2
    head, first, second = capsys.readouterr().err.splitlines()
    assert "name one, as in `bdoc watch 11`" in head
    assert ("11 · a.py" in first, "22 · b.py" in second) == (True, True)
    assert main(["watch", "c.py"]) == 2
    assert "no run matches 'c.py'" in capsys.readouterr().err


@pytest.mark.parametrize("every", ["0", "nan"])
def test_a_pause_that_is_none_is_refused(every: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "--every", every]) == 2
    assert "--every" in capsys.readouterr().err


def test_it_waits_for_a_run_ends_with_it_and_says_how_that_ended(place: Place) -> None:
    name = "nobody-else-s.py"  # the machine's other runs are found, too
    by_name = place.bdoc("watch", "--wait", "--json", "--every", "0.2", name)
    (place.folder / name).write_text(WAITING)
    job = place.bdoc("run", "--quiet", "-o", "kept.json", name, start_new_session=True)
    first = first_that(by_name, lambda look: bool(look["state"] == "starting"))
    assert (first["pid"], first["steps"], first["report"]) == (job.pid, 0, None)
    by_pid = place.bdoc("watch", str(job.pid), "--every", "0.2")
    assert by_pid.stdout is not None
    assert "waiting for the first batch" in by_pid.stdout.readline()
    place.end()
    last = first_that(by_name, lambda look: bool(look["state"] == "ended"))
    assert (last["exit_status"], last["profile"]) == (3, "kept.json")
    told, errors = by_pid.communicate()
    assert "ended with status 3 · profile in kept.json · bdoc report kept.json" in told.splitlines()[-1]
    assert (by_pid.returncode, by_name.wait(), errors) == (0, 0, "")
    assert job.wait() == 3


def test_a_killed_bdoc_is_named_and_what_it_left_goes_once_nobody_needs_it(place: Place) -> None:
    job, folder = place.job(WAITING)
    watch = place.bdoc("watch", str(folder), "--json", "--every", "0.2")
    first_that(watch, lambda look: bool(look["state"] == "starting"))
    job.kill()
    first_that(watch, lambda look: bool(look["state"] == "killed"))
    assert watch.wait() == 0
    said = run_registry.read_announcement(folder)
    assert said is not None
    assert run_registry.lives(said.training), "the training is to go on"
    again = place.bdoc("watch", str(folder))
    assert f"bdoc (pid {job.pid}) of `train.py` was killed" in again.communicate()[1]
    assert again.returncode == 2
    assert run_registry.sweep(run_registry.find_runs([str(place.tmp)])) == []
    place.end()
    until(lambda: not run_registry.lives(said.training), "the end of the training")
    assert place.bdoc("run", "--quiet", "-o", "next.json", "train.py").wait() == 3
    assert list(place.tmp.glob(f"{FOLDER_PREFIX}*")) == []


@pytest.mark.parametrize(
    ("term", "wait_for"), [("xterm", "Ctrl-C leaves"), ("dumb", "waiting for the first")]
)
def test_ctrl_c_leaves_the_job_alone_and_the_screen_whole(place: Place, term: str, wait_for: str) -> None:
    job, folder = place.job(WAITING)
    terminal = Terminal()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal.screen)
    narrow = {"TERM": term, "COLUMNS": "40"}
    watch = place.bdoc("watch", str(folder), env=narrow, start_new_session=True, **streams)
    terminal.await_text(wait_for)
    os.kill(watch.pid, signal.SIGINT)
    assert watch.wait(30) == 130
    shown = terminal.shown()
    terminal.close()
    assert "Traceback" not in shown
    assert ("\x1b[" in shown) is (term == "xterm")
    assert job.poll() is None


@pytest.mark.slow
def test_the_verdict_so_far_comes_while_the_training_goes_on(place: Place) -> None:
    job, folder = place.job(TRAINING, "--no-profiler", "--no-py-spy")
    control = (folder / "control").read_bytes()
    watch = place.bdoc("watch", str(folder), "--json", "--every", "0.5")
    pipe = f"{sys.executable} -c '{START}' watch {folder} | head -1"
    head = subprocess.run(
        pipe, shell=True, cwd=place.folder, env=place.environ, capture_output=True, text=True, check=False
    )
    assert (head.stdout.count("\n"), head.stderr) == (1, "")
    look = first_that(watch, lambda look: look["report"] and look["report"]["quality"]["steady_steps"] > 0)
    once = place.bdoc("watch", str(folder), "--once")
    assert look["state"] == "running"
    assert look["steps"] >= look["report"]["quality"]["steady_steps"]
    assert 0 < look["step_time_s"] < 1
    assert 0 < look["data_wait_fraction"] < 1
    told, _ = once.communicate()
    assert once.returncode == 0
    assert "steady steps" in told
    assert (folder / "control").read_bytes() == control, "a watcher gives no orders"
    place.end()
    watch.communicate(timeout=60)  # a pipe that nobody reads is full on a slow machine, and it would wait
    assert watch.returncode == 0
    assert job.wait(60) == 0
    until(lambda: not folder.exists(), "the end of the run folder")
