"""Runs of a composed training: plain, without one of its parts, and under bdoc."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import resource
import shlex
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.lab.run import execute
from tests.random_trainings.clock import Truth, truth
from tests.random_trainings.parts import Part

LIMIT_S = 150.0


@dataclass(frozen=True)
class Bench:
    """Where and how trainings are run."""

    folder: Path
    python: str = sys.executable
    bdoc: str = "bdoc"


@dataclass(frozen=True)
class Run:
    """One run and its script's own clock; no clock where the script did not end well.

    ``others`` is how many cores were used by other people's processes meanwhile.
    """

    status: int
    stdout: str
    stderr: str
    truth: Truth | None
    others: float


@dataclass(frozen=True)
class Measured:
    """What plain runs say: seconds of the whole training, and of the training without each part."""

    script: str
    status: int
    stdout: str
    wall_s: dict[str, list[float]]
    wait_fraction: float | None
    others: float

    def gains(self) -> dict[str, float]:
        """How many times faster the training is without each part."""
        whole = statistics.median(self.wall_s[""])
        return {name: whole / statistics.median(taken) for name, taken in self.wall_s.items() if name}


def plain(bench: Bench, script: Path, without: str = "") -> Run:
    """The script as it is, or without one of its parts."""
    return _run(bench, [bench.python, script.name], without)


def watched(bench: Bench, script: Path) -> tuple[Run, dict[str, Any] | None, str]:
    """The script under bdoc, the report, and what was said where there is none."""
    profile = bench.folder / "profile.json"
    profile.unlink(missing_ok=True)
    bdoc = shlex.split(bench.bdoc)
    done = _run(bench, [*bdoc, "run", "--quiet", "--python", bench.python, "-o", profile.name, script.name])
    command = [*bdoc, "report", profile.name, "--format", "json"]
    said = execute(command, cwd=bench.folder, limit_s=LIMIT_S)
    report = json.loads(said.stdout) if said.returncode == 0 else None
    return done, report, done.stderr + said.stderr


def _run(bench: Bench, command: Sequence[str], without: str = "") -> Run:
    clock = bench.folder / "clock.json"
    clock.unlink(missing_ok=True)
    began_s, busy_s, ours_s = time.monotonic(), _busy_s(), _children_s()
    done = execute(command, cwd=bench.folder, limit_s=LIMIT_S, TRUTH_FILE=clock.name, WITHOUT=without)
    used_s = _busy_s() - busy_s - (_children_s() - ours_s)
    others = max(0.0, used_s / (time.monotonic() - began_s))
    known = truth(json.loads(clock.read_text())) if clock.exists() else None
    return Run(done.returncode, done.stdout, done.stderr, known, others)


def _busy_s() -> float:
    """CPU seconds that all of the machine used since it started, waiting and stolen time left out."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def alone(lock: Path | None) -> Iterator[None]:
    """Nobody who honours the lock runs anything beside what is in here."""
    if lock is None:
        yield
        return
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def measure(bench: Bench, script: Path, parts: Sequence[Part], repeats: int) -> Measured:
    """Run the script whole and without each part, in turns."""
    wall_s: dict[str, list[float]] = {}
    first: Run | None = None
    others = 0.0
    for _ in range(repeats):
        for without in ("", *(part.name for part in parts)):
            done = plain(bench, script, without)
            if done.truth is None or done.status:
                raise RuntimeError(f"without={without!r}: status {done.status}: {done.stderr[-2000:]}")
            first = first or done
            others = max(others, done.others)
            wall_s.setdefault(without, []).append(done.truth.wall_s)
    assert first is not None
    assert first.truth is not None
    return Measured(digest(script), first.status, first.stdout, wall_s, first.truth.wait_fraction, others)


def kept(folder: Path | None, seed: int, script: Path) -> Measured | None:
    """What was measured before of this very script."""
    file = folder / f"{seed}.json" if folder else None
    if file is None or not file.exists():
        return None
    found = Measured(**json.loads(file.read_text()))
    return found if found.script == digest(script) else None


def keep(folder: Path | None, seed: int, measured: Measured) -> None:
    """Keep what was measured for the next time."""
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{seed}.json").write_text(json.dumps(asdict(measured), indent=1) + "\n")


def digest(script: Path) -> str:
    """What tells one script from another."""
    return hashlib.sha256(script.read_bytes()).hexdigest()[:16]
