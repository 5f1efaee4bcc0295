"""``python -m tests.random_trainings``: compose, measure, diagnose, judge, and print the table."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.random_trainings.compose import compose
from tests.random_trainings.judge import Row, answer, row, totals
from tests.random_trainings.parts import parts
from tests.random_trainings.plan import draw
from tests.random_trainings.run import Bench, Measured, alone, keep, kept, measure, watched


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each seed, and the totals."""
    given = _arguments(argv)
    signal.signal(signal.SIGTERM, _stopped)
    rows: list[Row] = []
    for seed in given.seeds:
        if given.show:
            print(f"# {draw(seed)}\n{compose(seed)}")
            continue
        began = time.monotonic()
        try:
            done = one(seed, given)
        except Exception as broken:  # a seed that cannot be run is told, and costs no other
            print(f"{seed:6} {draw(seed).focus:<12} not measured: {broken}", flush=True)
            continue
        if isinstance(done, Row):
            rows.append(done)
            if given.json:
                given.json.write_text(json.dumps([asdict(known) for known in rows], indent=1) + "\n")
        print(
            f"{line(done) if isinstance(done, Row) else done}  {time.monotonic() - began:5.0f} s", flush=True
        )
    for what, (number, total) in totals(rows).items() if rows else ():
        print(f"{what}: {number} of {total}")
    return 0


def _stopped(*_: object) -> None:
    """Being told to stop ends the training that runs, and removes what it made."""
    raise SystemExit(128 + signal.SIGTERM)


def one(seed: int, given: argparse.Namespace) -> Row | str:
    """Measure one seed, unless that was done before, and diagnose it."""
    with tempfile.TemporaryDirectory(prefix="training-", dir=given.folder) as name:
        bench = Bench(Path(name), given.python, given.bdoc)
        script = bench.folder / "train.py"
        script.write_text(compose(seed))
        plan, known = draw(seed), parts(draw(seed))
        measured = kept(given.truth, seed, script)
        if measured is None:
            with alone(given.lock):
                measured = measure(bench, script, known, given.repeats)
            keep(given.truth, seed, measured)
        if given.plain:
            return plain_line(seed, measured)
        with alone(given.lock):
            done, report, said = watched(bench, script)
        if report is None:
            print(f"{seed}: no report: {said[-500:]}", file=sys.stderr)
        if given.keep:
            _keep(given.keep / str(seed), bench.folder, report)
        return row(
            seed,
            plan.focus,
            known,
            measured.gains(),
            report,
            wait_truth=done.truth.wait_fraction if done.truth else None,
            wall_s=done.truth.wall_s if done.truth else 0.0,
            same_status=done.status == measured.status,
            same_output=done.stdout == measured.stdout,
            others=max(done.others, measured.others),
        )


def _keep(folder: Path, made: Path, report: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("train.py", "profile.json", "clock.json"):
        if (made / name).exists():
            shutil.copy(made / name, folder / name)
    (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")


def plain_line(seed: int, measured: Measured) -> str:
    """What plain runs say of a seed."""
    plan, gains = draw(seed), measured.gains()
    found = answer(parts(plan), gains)
    each = " ".join(f"{name} ×{gain:.2f}" for name, gain in sorted(gains.items(), key=lambda one: -one[1]))
    hit = "as meant" if found.best in (plan.focus, "input" if plan.focus in FETCHING else "") else "otherwise"
    wait = "-" if measured.wait_fraction is None else f"{measured.wait_fraction:.3f}"
    wall = measured.wall_s[""][0]
    return f"{seed:6} {plan.focus:<12}{hit:<10}{wall:6.1f} s  wait {wait}  {each}{disturbed(measured.others)}"


FETCHING = "python numpy torch sleep lock disk network rows fields collate".split()
DISTURBED = 0.15  # cores
HEAD = (
    f"{'seed':>6} {'best part':<12}{'gain':>6}  {'bdoc says':<32}{'sure':<8}{'bound':<6}{'cause':<6}"
    "wait true/bdoc  left  first remedy"
)


def line(one: Row) -> str:
    """One row of the table."""
    wait = "/".join("  -  " if value is None else f"{value:.3f}" for value in (one.wait_truth, one.wait))
    left = "  -" if one.unexplained is None else f"{one.unexplained:.0%}"
    marks = [{True: "ok", False: "WRONG", None: "-"}[value] for value in (one.bound_right, one.cause_right)]
    harm = "" if one.same_status and one.same_output else "  " + (
        "OUTPUT DIFFERS" if one.same_status else "STATUS DIFFERS")  # fmt: skip
    wrong = "" if one.wait_right in (True, None) else "*"
    return (
        f"{one.seed:6} {one.best:<12}×{one.gain:5.2f}  {one.bound + ' / ' + one.cause:<32}{one.confidence:<8}"
        f"{marks[0]:<6}{marks[1]:<6}{wait}{wrong:<2} {left:>5}  {one.remedy}{harm}"
        f"{disturbed(one.others)}{'' if one.cause_right else '  true: ' + ' '.join(one.causes)}"
    )


def disturbed(others: float) -> str:
    """A remark where the times say little."""
    return f"  (others used {others:.1f} cores)" if others > DISTURBED else ""


def seeds(text: str) -> list[int]:
    """`1-20,33` and the like."""
    chosen: list[int] = []
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        chosen += range(int(first), int(last or first) + 1)
    return chosen


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.random_trainings", description=__doc__)
    add, command = parser.add_argument, str(Path(sys.executable).with_name("bdoc"))
    add("--seeds", type=seeds, default=seeds("1-20"), help="such as 1-20,33 (default 1-20)")
    add("--bdoc", default=command, help="the command that is judged")
    add("--python", default=sys.executable, help="the Python that runs trainings")
    add("--lock", type=_path, help="file to lock while trainings run")
    add("--repeats", type=int, default=1, help="plain runs of each kind (default 1)")
    add("--truth", type=_path, help="folder that keeps the plain runs")
    add("--keep", type=_path, help="folder for scripts, profiles, reports")
    add("--json", type=_path, help="file for the rows")
    add("--folder", type=_path, help="where trainings keep files; a real disk")
    add("--plain", action="store_true", help="only the plain runs")
    add("--show", action="store_true", help="print the scripts, run nothing")
    given = parser.parse_args(argv)
    if not given.show and not given.plain:
        print(HEAD, flush=True)
    return given


def _path(text: str) -> Path:
    return Path(text).resolve()


if __name__ == "__main__":
    raise SystemExit(main())
