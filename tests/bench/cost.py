"""``python -m tests.bench``: what watching costs, by runs with and without bdoc in turn."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STEPS = Path(__file__).with_name("steps.py")
BDOC = ["-m", "bottleneck_doctor"]
STEP_MS = (0.3, 3.0, 30.0)


@dataclass(frozen=True)
class Run:
    """One run: by the script's own clocks, and by the kernel's books on everything that was started."""

    step_s: float
    mean_step_s: float
    first_step_s: float
    total_s: float
    memory_bytes: float
    other_cpu_s: float
    supervisor_share: float | None = None
    agent_us: float | None = None


@dataclass(frozen=True)
class Pair:
    """A plain run and the watched run right after it."""

    plain: Run
    watched: Run


ROWS: dict[str, Callable[[Pair], float | None]] = {
    "step time ratio, median": lambda p: p.watched.step_s / p.plain.step_s,
    "step time ratio, mean": lambda p: p.watched.mean_step_s / p.plain.mean_step_s,
    "added to a step, µs": lambda p: (p.watched.step_s - p.plain.step_s) * 1e6,
    "added to start-up, s": lambda p: p.watched.first_step_s - p.plain.first_step_s,
    "added to the run, s": lambda p: p.watched.total_s - p.plain.total_s,
    "added memory, MiB": lambda p: (p.watched.memory_bytes - p.plain.memory_bytes) / 2**20,
    "all CPU beside training, s": lambda p: p.watched.other_cpu_s - p.plain.other_cpu_s,
    "supervisor, share of a core": lambda p: p.watched.supervisor_share,
    "agent by its own count, µs": lambda p: p.watched.agent_us,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure each step length and print medians with the smallest and the largest."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="pairs of runs for each step length")
    parser.add_argument("--seconds", type=float, default=8.0, help="rough length of a training")
    parser.add_argument("--step-ms", type=float, nargs="+", default=STEP_MS)
    parser.add_argument("--bare", action="store_true", help="without profiler and py-spy windows")
    given = parser.parse_args(argv)
    options = ["--no-profiler", "--no-py-spy"] if given.bare else []
    columns = []
    for step_ms in given.step_ms:
        pairs = []
        for number in range(given.repeats):
            print(f"{step_ms} ms: {number + 1}/{given.repeats}", file=sys.stderr, flush=True)
            pairs.append(pair(step_ms, given.seconds, options))
        columns.append(pairs)
    windows = " without instrument windows" if given.bare else ""
    print(f"what bdoc costs{windows}: median (min – max) of {given.repeats} pairs")
    print(f"{'steps of':28}" + "".join(f"{f'{step_ms} ms':>26}" for step_ms in given.step_ms))
    for name, of in ROWS.items():
        print(f"{name:28}" + "".join(f"{spread([of(each) for each in pairs]):>26}" for pairs in columns))
    return 0


def pair(
    step_ms: float, seconds: float, options: list[str], training: Path = STEPS, bdoc: Sequence[str] = BDOC
) -> Pair:
    """One plain and one watched run of the same training."""
    with tempfile.TemporaryDirectory(prefix="bdoc-bench-") as name:
        out, profile = Path(name) / "cost.json", Path(name) / "profile.json"
        steps = str(max(100, round(seconds / step_ms * 1000)))
        script = [str(training), "--step-ms", str(step_ms), "--steps", steps, "--out", str(out)]
        plain = execute(script, out)
        watched = execute([*bdoc, "run", "--quiet", *options, "-o", str(profile), *script], out)
        told = subprocess.run(
            [sys.executable, *bdoc, "report", str(profile), "--format", "json"],
            env=environment(),
            capture_output=True,
            check=True,
        )
    overhead = json.loads(told.stdout)["quality"]["overhead"]
    agent_s = overhead["agent_s_per_step"]
    own = {
        "supervisor_share": overhead["supervisor_cpu_share"],
        "agent_us": None if agent_s is None else agent_s * 1e6,
    }
    return Pair(plain, replace(watched, **own))


def execute(arguments: list[str], out: Path) -> Run:
    """Run Python with the arguments; what it used beside the training comes from the kernel's books."""
    began_s = time.monotonic()
    pid = os.posix_spawn(sys.executable, [sys.executable, *arguments], environment())
    _, status, used = os.wait4(pid, 0)
    total_s = time.monotonic() - began_s
    if status != 0:
        raise SystemExit(f"the run ended with status {os.waitstatus_to_exitcode(status)}: {arguments}")
    cost = json.loads(out.read_text())
    out.unlink()
    return Run(
        step_s=cost["step_s"],
        mean_step_s=cost["mean_step_s"],
        first_step_s=cost["first_step_at_s"] - began_s,
        total_s=total_s,
        memory_bytes=cost["memory_bytes"],
        other_cpu_s=used.ru_utime + used.ru_stime - cost["cpu_s"],
    )


def environment() -> dict[str, str]:
    """Ours first, so that ``bdoc`` is the one beside these files."""
    given = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *([given] if given else [])])}


def spread(values: Sequence[float | None]) -> str:
    """The median, and between what it lies."""
    known = [value for value in values if value is not None]
    if not known:
        return "not measured"
    return f"{statistics.median(known):.3f} ({min(known):.3f} – {max(known):.3f})"


if __name__ == "__main__":
    raise SystemExit(main())
