"""``python -m tests.bench``: what watching costs, by runs with and without bdoc in turn."""

import argparse
from collections.abc import Callable, Sequence

from tests.lab.cost import Pair, pair, spread
from tests.lab.options import tell

STEP_MS = (0.3, 3.0, 30.0)
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
            tell(f"{step_ms} ms: {number + 1}/{given.repeats}")
            pairs.append(pair(step_ms, given.seconds, options))
        columns.append(pairs)
    windows = " without instrument windows" if given.bare else ""
    print(f"what bdoc costs{windows}: median (min – max) of {given.repeats} pairs")
    print(f"{'steps of':28}" + "".join(f"{f'{step_ms} ms':>26}" for step_ms in given.step_ms))
    for name, of in ROWS.items():
        print(f"{name:28}" + "".join(f"{spread([of(each) for each in pairs]):>26}" for pairs in columns))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
