"""``python -m tests.bench.repeats``: how much runs of one job differ, and what the gate makes of that.

``--measure`` runs each job again and again in turn and keeps a small table; without it the kept table is
gated over and over: unchanged, and with one side a tenth slower.
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bottleneck_doctor.analyse.gate import DEFAULT_LIMIT, compare_runs
from bottleneck_doctor.model.report import (
    EXCEEDED,
    Metric,
    Overhead,
    Quality,
    Repeat,
    Report,
    RunSummary,
    Verdict,
)
from tests.lab.options import tell
from tests.lab.run import ROOT, diagnose

KEPT = Path(__file__).with_name("repeats.json")
JOBS = ("loader_in_main", "healthy_balanced")
SEED = 20_13
SLOWER = 0.10
RUN = RunSummary(["t.py"], "t.py", "/", "2026-11-22T09:00:00Z", 9.0, 0, "box", "3.11", "2.13")


class Row(NamedTuple):
    """One run: seconds since the first; step time with interval; the same without other programs."""

    at_s: float
    step_s: float
    low_s: float
    high_s: float
    own_s: float
    own_low_s: float
    own_high_s: float


def main(argv: Sequence[str] | None = None) -> int:
    """Measure or simulate, and print what came out."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.repeats", description=__doc__)
    parser.add_argument("--measure", type=int, metavar="RUNS", help="run each job so often, then simulate")
    parser.add_argument("--seconds", type=float, default=6.0, help="rough length of a training")
    parser.add_argument("--pause", type=float, default=6.0, help="seconds between two runs")
    parser.add_argument("--table", type=Path, default=KEPT)
    parser.add_argument("--tries", type=int, default=1000)
    given = parser.parse_args(argv)
    if given.measure:
        table = measure(given.measure, given.seconds, given.pause)
        given.table.write_text(as_text(table))
    for line in said(recorded(given.table), given.tries):
        print(line)
    return 0


def measure(runs: int, seconds: float, pause_s: float) -> dict[str, list[Row]]:
    """The jobs in turn, so that both see the same hours of the machine."""
    table: dict[str, list[Row]] = {job: [] for job in JOBS}
    began_s = time.monotonic()
    for number in range(runs):
        for job in JOBS:
            tell(f"{job}: {number + 1}/{runs}")
            at_s = time.monotonic() - began_s
            script = ROOT / "tests" / "patients" / f"{job}.py"
            with tempfile.TemporaryDirectory(prefix="bdoc-repeats-") as folder:
                report = diagnose(Path(folder) / "profile.json", [str(script), "--seconds", str(seconds)])
            table[job].append(row(at_s, report))
            time.sleep(pause_s)
    return table


def row(at_s: float, report: dict[str, Any]) -> Row:
    """When it began, its step time with interval, and that without what other programs cost it."""
    whole, left = report["metrics"]["step_time_s"], report["quality"]["uncontended_step"]
    numbers = [one[name] for one in (whole, left) for name in ("value", "low", "high")]
    return Row(round(at_s), *(round(number, 7) for number in numbers))


def as_text(table: dict[str, list[Row]]) -> str:
    """JSON with a row on each line: a new measurement shows in a diff."""
    jobs = [
        f'  "{job}": [\n' + ",\n".join(f"    {json.dumps(list(one))}" for one in rows) + "\n  ]"
        for job, rows in table.items()
    ]
    return "{\n" + ",\n".join(jobs) + "\n}\n"


def said(table: dict[str, list[Row]], tries: int) -> list[str]:
    """What the gate does at its defaults, on the measured runs and on noise of known size."""
    lines = [f"limit {DEFAULT_LIMIT:.0%}; failed unchanged, failed {SLOWER:.0%} slower; {tries} tries"]
    for job, rows in table.items():
        for in_turn in (True, False):
            for other_programs in (True, False):
                cells = []
                for repeats in (1, 3, 5):
                    wrong, right = rates(rows, repeats, in_turn, tries, other_programs)
                    cells.append(f"{repeats}: {wrong:6.1%} {right:6.1%}")
                order = "in turn" if in_turn else "one after the other"
                whose = "" if other_programs else ", other programs counted"
                lines.append(f"{f'{job}, {order}{whose}':62} " + "   ".join(cells))
    lines.append("noise between runs, and how often a tenth slower is seen, by repeats a side")
    lines.append("        " + "".join(f"{repeats:>6}" for repeats in range(1, 11)))
    for noise in (0.01, 0.02, 0.03, 0.04, 0.05):
        seen = [fair_power(noise, repeats, tries) for repeats in range(1, 11)]
        lines.append(f"  {noise:4.0%}  " + "".join(f"{right:6.0%}" for _, right in seen))
        lines.append("   wrong" + "".join(f"{wrong:6.1%}" for wrong, _ in seen))
    return lines


def recorded(table: Path) -> dict[str, list[Row]]:
    """The runs of each job in the order in which they were measured."""
    return {job: [Row(*row) for row in rows] for job, rows in json.loads(table.read_text()).items()}


def rates(
    rows: Sequence[Row], repeats: int, in_turn: bool, tries: int, other_programs: bool = True
) -> tuple[float, float]:
    """How often the gate fails at its defaults: on the unchanged job, and with one side a tenth slower.

    Each try takes neighbouring runs, so that the machine's drift stays in. ``other_programs``: whether the
    gate may leave out what those cost.
    """
    chance = random.Random(SEED)
    wrong = right = 0
    for _ in range(tries):
        start = chance.randrange(len(rows) - 2 * repeats + 1)
        base, new = _sides(rows[start : start + 2 * repeats], in_turn, chance)
        wrong += _fails(base, new, 1.0, other_programs)
        right += _fails(base, new, 1 + SLOWER, other_programs)
    return wrong / tries, right / tries


def fair_power(noise: float, repeats: int, tries: int) -> tuple[float, float]:
    """The same on independent runs that differ by ``noise`` and tremble by half a percent within."""
    chance = random.Random(SEED)
    wrong = right = 0
    for _ in range(tries):
        base, new = ([_drawn(noise, chance) for _ in range(repeats)] for _ in range(2))
        wrong += _fails(base, new, 1.0, True)
        right += _fails(base, new, 1 + SLOWER, True)
    return wrong / tries, right / tries


def _drawn(noise: float, chance: random.Random) -> Row:
    step_s = 0.1 * (1 + chance.gauss(0, noise)) * (1 + chance.gauss(0, 0.005))
    ends = (step_s * (1 - 0.0082), step_s * (1 + 0.0082))
    return Row(0.0, step_s, *ends, step_s, *ends)


def _sides(block: Sequence[Row], in_turn: bool, chance: random.Random) -> tuple[list[Row], list[Row]]:
    half = len(block) // 2
    if not in_turn:
        sides = [list(block[:half]), list(block[half:])]
        chance.shuffle(sides)
        return sides[0], sides[1]
    pairs = [chance.sample(block[place : place + 2], 2) for place in range(0, len(block), 2)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _fails(base: list[Row], new: list[Row], slower: float, other_programs: bool) -> bool:
    sides = (_repeats(base, 1.0, other_programs), _repeats(new, slower, other_programs))
    return compare_runs(*sides, DEFAULT_LIMIT).status == EXCEEDED


def _repeats(rows: list[Row], by: float, other_programs: bool) -> list[Repeat]:
    return [Repeat(str(place), _report(row, by, other_programs)) for place, row in enumerate(rows)]


def _report(row: Row, by: float, other_programs: bool) -> Report:
    whole = Metric(by * row.step_s, "s", by * row.low_s, by * row.high_s, 300)
    own = Metric(by * row.own_s, "s", by * row.own_low_s, by * row.own_high_s, 300)
    quality = Quality(
        300, 10, 0.1, Overhead(None, None, None), uncontended_step=own if other_programs else None
    )
    return Report(RUN, quality, {"step_time_s": whole}, [], Verdict("cpu", "none", "", "high"))


if __name__ == "__main__":
    raise SystemExit(main())
