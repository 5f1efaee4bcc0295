"""Real processes on a stage: a child script, its supervisor, and markers that say how far they are."""

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE_S = 30.0
STAND_IN = Path(__file__).with_name("stand_in.py")

# What every child script can do: leave a mark, wait for one, count signals. The alarm ends forgotten ones.
PRELUDE = """
import collections, os, pathlib, signal, sys, time
HERE = pathlib.Path(__file__).parent
signal.alarm(60)

def mark(name, text=""):
    (HERE / (name + ".part")).write_text(str(text))
    os.replace(HERE / (name + ".part"), HERE / name)

def await_mark(name):
    while not (HERE / name).exists():
        time.sleep(0.01)

counts = collections.Counter()

def count(*numbers):
    def handler(number, frame):
        counts[number] += 1
        mark("count-%d" % number, counts[number])
    for number in numbers:
        signal.signal(number, handler)

def leave_on(number, status=0):
    def handler(number, frame):
        mark("counts", dict(counts))
        os._exit(status)
    signal.signal(number, handler)

def wait_for_ever():
    mark("ready", os.getpid())
    while True:
        time.sleep(0.05)
"""


def until(ready: Callable[[], Any], what: str, instead: Callable[[], str] = str) -> Any:
    """Wait for something to become true, and give it back; else say what there was instead."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = ready()
        if found:
            return found
        time.sleep(0.01)
    pytest.fail(f"waited {PATIENCE_S:.0f} s in vain for {what}, found {instead()!r}")


class Terminal:
    """The user's side of a pseudo-terminal: what was shown, and a keyboard."""

    def __init__(self) -> None:
        self.keyboard, self.screen = pty.openpty()
        os.set_blocking(self.keyboard, False)
        self._shown = b""

    def type(self, text: str) -> None:
        os.write(self.keyboard, text.encode())

    def shown(self) -> str:
        try:
            while piece := os.read(self.keyboard, 65536):
                self._shown += piece
        except OSError:  # nothing more for now, or nobody at the other end
            pass
        return self._shown.decode(errors="replace")

    def await_text(self, text: str) -> None:
        until(lambda: text in self.shown(), f"{text!r} on the terminal", self.shown)

    def close(self) -> None:
        for descriptor in (self.keyboard, self.screen):
            os.close(descriptor)


class Stage:
    """A folder for one test, and the processes started in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.report = folder / "ended.json"
        self._started: list[subprocess.Popen[bytes]] = []
        self._terminals: list[Terminal] = []

    def script(self, source: str, name: str = "train.py") -> str:
        path = self.folder / name
        path.write_text(PRELUDE + source)
        return str(path)

    def line(self, *argv: str) -> list[str]:
        """The command line of a supervisor."""
        return [sys.executable, str(STAND_IN), str(self.report), *argv]

    def start(self, *argv: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start a supervisor of ``argv`` in a process group of its own."""
        options.setdefault("start_new_session", True)
        return self.popen(self.line(*argv), **options)

    def start_script(self, source: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start a supervisor of a script, and come back when the script is ready."""
        process = self.start(sys.executable, self.script(source), **options)
        self.await_mark("ready")
        return process

    def popen(self, line: list[str], **options: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(line, cwd=options.pop("cwd", self.folder), **options)
        self._started.append(process)
        return process

    def on_terminal(self, line: list[str]) -> tuple[Terminal, subprocess.Popen[bytes]]:
        """Start a program as the leader of a new session on a new terminal."""
        terminal = Terminal()
        self._terminals.append(terminal)
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal.screen)
        claim = lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # noqa: E731
        return terminal, self.popen(line, start_new_session=True, preexec_fn=claim, **streams)

    def await_mark(self, name: str) -> str:
        path = self.folder / name
        until(path.exists, f"the mark {name!r}")
        return path.read_text()

    def await_ended(self) -> dict[str, Any]:
        """What the supervisor knew at the end."""
        until(self.report.exists, "the end of the supervisor")
        return dict(json.loads(until(self.report.read_text, "the supervisor's words")))

    def await_gone(self, pid: int) -> None:
        """Wait until a process has ended, be it as a zombie that nobody collects."""

        def gone() -> bool:
            try:
                return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
            except OSError:
                return True

        until(gone, f"the end of process {pid}")

    def clear(self) -> None:
        for process in self._started:
            if process.poll() is None:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    process.kill()
                process.wait(PATIENCE_S)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        for terminal in self._terminals:
            terminal.close()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """An empty stage; whatever still runs on it at the end is ended."""
    made = Stage(tmp_path)
    yield made
    made.clear()
