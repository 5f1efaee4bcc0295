"""``python -m tests.bench.fleet``: what 100,000 made-up runs take, and whether it finds what is planted.

Reports are recorded ones under other names, with other times (tests/fleet/made_up.py): in a few files of
lines, as single files, and as Parquet; then recorded profiles are diagnosed, for the rate.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bottleneck_doctor.commands.fleet import report_of_bytes
from bottleneck_doctor.fleet import questions
from bottleneck_doctor.fleet.reading import Reading, open_store, read, save
from bottleneck_doctor.fleet.sources import find
from bottleneck_doctor.model.fleet import Fleet
from tests.fleet.made_up import RECORDED, SLOW_NODE, SLOWED_JOB, Plan, job_name, texts
from tests.lab import golden

CORES = 2
SICK = {"slow_node": 0.15, "slowed_job": 0.12}


def main(argv: Sequence[str] | None = None) -> int:
    """A line for each number; status 1 where something planted was missed, or a healthy fleet accused."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fleet", description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--profiles", type=int, default=40, help="diagnosed for the rate")
    parser.add_argument("--healthy", type=int, default=20, help="healthy fleets of 2,000 runs")
    given = parser.parse_args(argv)
    plan = Plan(given.runs, max(8, given.runs // 200), 120, **SICK)
    with tempfile.TemporaryDirectory(prefix="bdoc-fleet-") as name:
        folder = Path(name)
        _as_lines(folder / "lines", plan)
        fleet = _timed("newline JSON, 4 files", folder / "lines")[0]
        _as_files(folder / "single", plan)
        again, store = _timed("single files", folder / "single")
        began = time.monotonic()
        save(store, str(folder / "tables"))
        size = sum(one.stat().st_size for one in (folder / "tables").iterdir()) / 2**20
        print(f"written as Parquet in {time.monotonic() - began:.1f} s, {size:.0f} MiB")
        _timed("Parquet", folder / "tables", questioned=True)
        _profiles(folder / "profiles", given.profiles)
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB of memory at most")
    for name in ("runs", "jobs", "nodes", "saving", "healthy", "unknown", "inconclusive"):
        assert getattr(again.totals, name) == getattr(fleet.totals, name)
    nodes, jobs = [one.host for one in fleet.slow_nodes], [one.job for one in fleet.slowed]
    print(
        f"slow nodes: {nodes} (planted: {SLOW_NODE}); slower jobs: {jobs} (planted: {job_name(SLOWED_JOB)})"
    )
    accused = [seed for seed in range(1, given.healthy + 1) if _accuses(seed)]
    print(f"{len(accused)} of {given.healthy} healthy fleets are accused of anything")
    return int(
        nodes != [SLOW_NODE] or jobs != [job_name(SLOWED_JOB)] or len(accused) > 1 + given.healthy // 5
    )


def _as_lines(folder: Path, plan: Plan) -> None:
    folder.mkdir()
    files = [(folder / f"{number}.ndjson").open("w") for number in range(4)]
    for place, text in enumerate(texts(plan, compact=True)):
        print(text, file=files[place * len(files) // plan.runs])
    for file in files:
        file.close()


def _as_files(folder: Path, plan: Plan) -> None:
    folder.mkdir()
    for place, text in enumerate(texts(plan)):
        (folder / f"{place}.json").write_text(text)


def _timed(what: str, folder: Path, *, questioned: bool = False) -> tuple[Fleet, Any]:
    size = sum(one.stat().st_size for one in folder.iterdir()) / 2**30
    began = time.monotonic()
    fleet, store = _read(folder)
    took_s = time.monotonic() - began
    print(f"{what}: {fleet.totals.runs} runs, {size:.2f} GiB, read and answered in {took_s:.1f} s")
    if questioned:
        questions.prepare(store, None, ())
        for name in ("_totals", "_wasted", "_savings", "_slowed", "_slow_nodes"):
            began = time.monotonic()
            getattr(questions, name)(store, *{"_wasted": ["job"], "_slowed": [[]]}.get(name, []))
            print(f"  {name.strip('_')}: {time.monotonic() - began:.2f} s")
    return fleet, store


def _read(folder: Path) -> tuple[Fleet, Any]:
    sources, refused, remote = find([str(folder)])
    store = open_store(remote, CORES)
    reading = read(store, sources, report_of_bytes, "bench", CORES)
    assert not refused
    assert not reading.refused, reading.refused[:3]
    return questions.answer(store, []), store


def _profiles(folder: Path, count: int) -> None:
    folder.mkdir()
    for name in golden.names(RECORDED, ".profile.json")[:count]:
        (folder / f"{name}.json").write_bytes(golden.read(RECORDED, f"{name}.profile.json"))
    seen: list[Reading] = []
    read(open_store(), find([str(folder)])[0], report_of_bytes, "bench", CORES, seen.append)
    rate = seen[-1].diagnosed / seen[-1].diagnosing_s
    print(f"{seen[-1].diagnosed} profiles diagnosed at {rate:.1f} a second on {CORES} cores")


def _accuses(seed: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="bdoc-fleet-") as name:
        (Path(name) / "all.ndjson").write_text("\n".join(texts(Plan(2000, 20, 24, seed), compact=True)))
        fleet, _ = _read(Path(name))
    return bool(fleet.slow_nodes or fleet.slowed)


if __name__ == "__main__":
    sys.exit(main())
