"""``python -m tests.bench.watching``: what ``bdoc watch`` costs a run; watched and unwatched runs in turn."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.cost import spread
from tests.lab.options import tell
from tests.lab.run import BDOC, ours_first, report_on

TRAINING = Path(__file__).with_name("crowd.py")
PATIENTS = {
    "loader-bound, one core idle": ["--workers", "0"],
    "every core busy": ["--workers", str(os.cpu_count() or 1), "--width", "4096"],
}
BEGINS_S = 60.0


@dataclass(frozen=True)
class WatchedRun:
    """One run as its report tells it, and what the watcher used."""

    step_s: float
    supervisor_share: float
    watcher_cpu_s: float
    watched_s: float


Pair = tuple[WatchedRun, WatchedRun]
ROWS: dict[str, Callable[[Pair], float]] = {
    "step time ratio": lambda p: p[1].step_s / p[0].step_s,
    "supervisor's CPU, ms per s more": lambda p: 1e3 * (p[1].supervisor_share - p[0].supervisor_share),
    "watcher's CPU, ms per s": lambda p: 1e3 * p[1].watcher_cpu_s / max(1e-9, p[1].watched_s),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure both patients and print medians with the smallest and the largest."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.watching", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="pairs of runs for each training")
    parser.add_argument("--seconds", type=float, default=15.0, help="of training in each run")
    given = parser.parse_args(argv)
    for name, options in PATIENTS.items():
        pairs = []
        for number in range(given.repeats):
            tell(f"{name}: {number + 1}/{given.repeats}")
            watched_first = number % 2 == 1
            first, second = (
                execute(options, given.seconds, one) for one in (watched_first, not watched_first)
            )
            pairs.append((second, first) if watched_first else (first, second))
        print(f"{name}: median (min – max) of {given.repeats} pairs")
        for row, of in ROWS.items():
            print(f"  {row:32}{spread([of(pair) for pair in pairs]):>30}")
    return 0


def execute(options: list[str], seconds: float, watched: bool) -> WatchedRun:
    """One run, with a watcher from its beginning on or without."""
    with tempfile.TemporaryDirectory(prefix="bdoc-bench-") as name:
        environ = {**os.environ, "PYTHONPATH": ours_first(), "TMPDIR": name}
        profile = Path(name) / "profile.json"
        line = ["run", "--quiet", "--max-seconds", str(seconds), "-o", str(profile), str(TRAINING), *options]
        run = subprocess.Popen([*BDOC, *line], env=environ)
        cpu_s, watched_s = _watch(Path(name), environ) if watched else (0.0, 0.0)
        if run.wait() != 0:
            raise SystemExit(f"the run ended with status {run.returncode}: {line}")
        report = report_on(profile)
    share = report["quality"]["overhead"]["supervisor_cpu_share"]
    return WatchedRun(report["metrics"]["step_time_s"]["value"], share, cpu_s, watched_s)


def _watch(folder: Path, environ: dict[str, str]) -> tuple[float, float]:
    """Watch the run in that folder to its end; the CPU seconds of the watcher, and how long."""
    deadline = time.monotonic() + BEGINS_S
    while not (found := list(folder.glob(".bdoc-run-*/run.json"))) and time.monotonic() < deadline:
        time.sleep(0.05)
    began_s = time.monotonic()
    line = [*BDOC, "watch", str(found[0].parent), "--every", "1"]
    pid = os.posix_spawn(
        sys.executable, line, environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
        setsigdef=[signal.SIGINT],
    )  # fmt: skip
    _, _, used = os.wait4(pid, 0)
    return used.ru_utime + used.ru_stime, time.monotonic() - began_s


if __name__ == "__main__":
    raise SystemExit(main())
