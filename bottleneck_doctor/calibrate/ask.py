"""Runs a probe as a script in a process of its own, and reads the rows that it tells until its time is up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROBES = Path(__file__).parent / "probes"
ROWS_AT_MOST = 64
TEXT_AT_MOST = 1 << 20
ENDING_S = 2.0
# Loaded from its file and not by name: the interpreter may be the user's, which need not know this package.
START = """\
import json, runpy, sys
main = runpy.run_path(sys.argv[1])["main"]
main(json.loads(sys.stdin.readline()), lambda **row: print(json.dumps(row), flush=True))"""


@dataclass
class Answer:
    """The rows that came, and what went wrong, "" when nothing did; ``interrupted`` by a signal to us."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    problem: str = ""
    interrupted: bool = False


def ask(python: str, probe: str, request: dict[str, Any], folder: str, seconds: float) -> Answer:
    """Run ``probes/<probe>.py`` for at most ``seconds`` with ``folder`` as its working directory."""
    command = [python, "-B", "-c", START, str(PROBES / f"{probe}.py")]
    try:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return Answer(problem=f"{python} could not be started: {error.strerror}")
    problem, interrupted = "", False
    try:
        told = process.communicate(json.dumps(request).encode() + b"\n", timeout=seconds)[0]
        problem = "" if process.returncode == 0 else f"its process ended with {process.returncode}"
    except subprocess.TimeoutExpired:
        told, problem = _end(process), f"it took longer than {seconds:.0f} s"
    except KeyboardInterrupt:
        told, interrupted = _end(process), True
    except BaseException:
        _end(process)
        raise
    return Answer(_rows(told), problem, interrupted)


def _end(process: subprocess.Popen[bytes]) -> bytes:
    """End it with all that it has forked; what it has told by now."""
    try:
        os.killpg(process.pid, signal.SIGKILL)  # a session of its own: nobody else is in that group
    except ProcessLookupError:
        pass
    try:
        return process.communicate(timeout=ENDING_S)[0]
    except subprocess.TimeoutExpired as late:  # a reader that the kernel does not let go of: leave it behind
        return late.output or b""


def _rows(told: bytes) -> list[dict[str, Any]]:
    """Rows among whatever else the user's modules print."""
    rows = []
    for line in told[:TEXT_AT_MOST].splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and "subject" in row:
            rows.append(row)
    return rows[:ROWS_AT_MOST]
