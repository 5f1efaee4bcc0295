"""Starts what a lab measures, each in a process of its own: any command, and bdoc on a training."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
BDOC = (sys.executable, "-m", "bottleneck_doctor")
LIMIT_S = 180.0
MARK = "BDOC_LAB_MARK"  # in the environment of whatever must leave no process behind


class Failed(Exception):
    """A run ended badly; the message says how."""


def execute(
    command: Sequence[str], *, cwd: Path = ROOT, limit_s: float = LIMIT_S, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run it without input and Python's warnings, however it ends; ``environ`` is added to our own."""
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PYTHONWARNINGS": "ignore", **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )


def succeed(command: Sequence[str], *, limit_s: float = LIMIT_S, **environ: str) -> str:
    """Its standard output; a command that fails is not measured."""
    done = execute(command, cwd=ROOT, limit_s=limit_s, **environ)
    if done.returncode:
        raise Failed(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def report_on(profile: Path) -> dict[str, Any]:
    """What bdoc makes of the profile."""
    told = succeed([*BDOC, "report", str(profile), "--format", "json"], PYTHONPATH=ours_first())
    return dict(json.loads(told))


def diagnose(
    profile: Path, training: Sequence[str], *options: str, limit_s: float = LIMIT_S
) -> dict[str, Any]:
    """Watch the training as a user would; the report, with the profile where it is wanted."""
    run = [*BDOC, "run", "--quiet", *options, "-o", str(profile), *training]
    succeed(run, limit_s=limit_s, PYTHONPATH=ours_first())
    return report_on(profile)


def in_turn(rounds: int, ways: Iterable[str], run: Callable[[str], T]) -> dict[str, list[T]]:
    """What each way gave, round after round: a machine's speed wanders, and all shall see the same of it."""
    given: dict[str, list[T]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way in given:
            given[way].append(run(way))
    return given


def ours_first() -> str:
    """A PYTHONPATH with which ``bdoc`` is the one beside these files, in whatever a process starts, too."""
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))


def left_running(mark: str) -> list[str]:
    """The processes that live and were started with this mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(f"process {(folder / 'comm').read_text().strip()}")
        except OSError:  # gone, or somebody else's
            continue
    return sorted(found)
