"""The questions to a fleet, held against a count in plain Python, and against what was planted."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.model.report import Fleet, Hours
from tests.fleet.conftest import asked, taken
from tests.fleet.made_up import SLOWED_JOB, Plan, job_name, put, reports

PLAN = Plan(500, 8, 12)


def answered(folder: Path, plan: Plan, **how: Any) -> Fleet:
    put(folder, plan)
    return asked(folder, **how)


def saved_share(report: dict[str, Any], remedy: dict[str, Any]) -> float | None:
    """The rule of docs/fleet.md once more."""
    likely = remedy["predicted_speedup"]["likely"]
    if likely is None:
        return None
    ledger = {one["part"]: one["share"] for one in report["ledger"]}
    part = ledger.get("training steps", 0.0)
    if remedy["scope"] == "run":
        respawn = remedy["finding"] == "worker-respawn"
        part = 1.0 if respawn else part + ledger.get("evaluation", 0.0)
    return float((1 - 1 / likely) * part)


def hours(report: dict[str, Any]) -> tuple[float, float]:
    machine, duration = report["run"]["machine"], report["run"]["duration_s"] / 3600
    return duration * machine["cores"], duration * len(machine["gpus"])


def counted(some: list[dict[str, Any]]) -> tuple[dict[str, list[float]], dict[str, list[float]], list[int]]:
    """Core-hours, GPU-hours, runs: wasted by cause, saved by remedy; how many runs of each judgement."""
    causes: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0])
    remedies: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0])
    judged = [0, 0, 0, 0]
    for report in some:
        core, gpu = hours(report)
        shares = [(saved_share(report, one) or 0.0, one) for one in report["remedies"]]
        for share, one in shares:
            if share > 0:
                _add(remedies[one["id"]], core * share, gpu * share)
        best, remedy = max(shares, key=lambda pair: pair[0], default=(0.0, {}))
        bound = report["verdict"]["bound"]
        kind = 3 if bound == "inconclusive" else 0 if best > 0 else 1 if bound == "balanced" else 2
        judged[kind] += 1
        if kind == 0:
            cause = next(one["cause"] for one in report["findings"] if one["id"] == remedy["finding"])
            _add(causes[cause], core * best, gpu * best)
    return causes, remedies, judged


def _add(row: list[float], core: float, gpu: float) -> None:
    row[0], row[1], row[2] = row[0] + core, row[1] + gpu, row[2] + 1


def row(hours: Hours, runs: int) -> Any:
    return pytest.approx([hours.core, hours.gpu, runs])


def test_runs_are_counted_as_plain_python_counts_them(tmp_path: Path) -> None:
    fleet, some = answered(tmp_path, PLAN), reports(PLAN)
    causes, remedies, judged = counted(some)
    totals = fleet.totals
    assert (totals.runs, totals.jobs, totals.nodes) == (500, 8, 12)
    assert [totals.saving, totals.healthy, totals.unknown, totals.inconclusive] == judged
    assert min(judged) > 25, "every kind of run must be there, or this tests nothing"
    both = [hours(one) for one in some]
    assert [totals.taken.core, totals.taken.gpu] == pytest.approx(
        [sum(one) for one in zip(*both, strict=True)]
    )
    assert {one.cause: row(one.wasted, one.runs) for one in fleet.causes} == causes
    assert {one.remedy: row(one.saved, one.runs) for one in fleet.remedies} == remedies
    whole = (totals.taken.core, totals.taken.gpu)
    best = max(remedies, key=lambda name: max(remedies[name][at] / whole[at] for at in (0, 1)))
    assert fleet.remedies[0].remedy == best
    assert sum(one.wasted.core for one in fleet.jobs) == pytest.approx(totals.wasted.core)
    assert all(one.wasted.core <= one.taken.core for one in [*fleet.causes, *fleet.jobs])


def test_a_job_that_got_slower_is_found_and_no_other(tmp_path: Path) -> None:
    (job,) = answered(tmp_path, Plan(1000, 8, 12, slowed_job=0.15)).slowed
    assert job.job == job_name(SLOWED_JOB)
    assert 0 < job.low < 0.15
    assert job.change == pytest.approx(0.15, abs=0.03)
    assert job.before_s < job.after_s


@pytest.mark.parametrize(("seed", "noise"), [(0, 0.005), (1, 0.1)])
def test_a_healthy_fleet_is_accused_of_nothing(tmp_path: Path, seed: int, noise: float) -> None:
    fleet = answered(tmp_path, Plan(600, 8, 12, seed, noise=noise))
    assert fleet.slowed == []
    assert fleet.jobs_compared >= 5


def test_arguments_can_be_ignored(tmp_path: Path) -> None:
    some = reports(Plan(60, 2, 3))
    for place, one in enumerate(some):
        one["run"]["command"] += ["--seed", str(place), f"--out=/runs/{place}"]
        (tmp_path / f"{place}.json").write_text(json.dumps(one))
    assert asked(tmp_path).totals.jobs == 60
    assert asked(tmp_path, ignored=("--seed", "out")).totals.jobs == 2


def test_since_parts_before_from_after(tmp_path: Path) -> None:
    fleet = answered(tmp_path, Plan(600, 8, 12, slowed_job=0.3), since="2026-11-19")
    assert fleet.since == "2026-11-19 00:00:00"
    assert [one.job for one in fleet.slowed] == [job_name(SLOWED_JOB)]
    (later,) = asked(tmp_path, since="2026-11-23").slowed
    assert later.runs_after < fleet.slowed[0].runs_after
    assert later.before_s > fleet.slowed[0].before_s, "slow days belong to what was before"


def test_without_a_ledger_what_a_remedy_saves_is_not_known(tmp_path: Path) -> None:
    (report,) = reports(Plan(1, 1, 1, kinds=("logging-blocking",)))
    put_whole, put_without = tmp_path / "whole.json", tmp_path / "without.json"
    put_whole.write_text(json.dumps(report))
    assert min(share or 0.0 for share in asked_sql(put_whole)) > 0
    put_without.write_text(json.dumps({**report, "ledger": []}))
    assert asked_sql(put_without) == {None}


def asked_sql(file: Path) -> set[float | None]:
    store, _ = taken(file)
    rows = store.execute("SELECT saved_share FROM remedies WHERE scope = 'step' AND likely > 1").fetchall()
    return {share for (share,) in rows}
