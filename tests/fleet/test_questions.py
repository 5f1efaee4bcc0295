"""The questions to a fleet, held against what was planted."""

import json
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.model.report import Fleet
from tests.fleet.conftest import asked, taken
from tests.fleet.made_up import SLOWED_JOB, Plan, job_name, put, reports

PLAN = Plan(120, 8, 12)


def answered(folder: Path, plan: Plan, **how: Any) -> Fleet:
    put(folder, plan)
    return asked(folder, **how)


def test_runs_are_counted_and_their_hours_add_up(tmp_path: Path) -> None:
    fleet, runs = answered(tmp_path, PLAN), [one["run"] for one in reports(PLAN)]
    totals = fleet.totals
    assert (totals.runs, totals.jobs, totals.nodes) == (120, 8, 12)
    judged = [totals.saving, totals.healthy, totals.unknown, totals.inconclusive]
    assert sum(judged) == 120
    assert min(judged) > 5, "every kind of run must be there, or this tests nothing"
    hours = [one["duration_s"] / 3600 * one["machine"]["cores"] for one in runs]
    assert totals.taken.core == pytest.approx(sum(hours))
    for parts in (fleet.causes, fleet.jobs):
        assert sum(one.wasted.core for one in parts) == pytest.approx(totals.wasted.core)
        assert all(one.wasted.core <= one.taken.core for one in parts)


def test_a_run_wastes_what_its_best_remedy_saves_of_its_training_steps(tmp_path: Path) -> None:
    """The rule of docs/fleet.md."""
    plan = Plan(1, 1, 1, kinds=("logging-blocking",))
    fleet, (report,) = answered(tmp_path, plan), reports(plan)
    steps = next(one["share"] for one in report["ledger"] if one["part"] == "training steps")
    likely = max(one["predicted_speedup"]["likely"] or 1 for one in report["remedies"])
    (cause,) = fleet.causes
    assert cause.wasted.gpu == pytest.approx(fleet.totals.taken.gpu * steps * (1 - 1 / likely))
    assert fleet.remedies[0].saved.core == pytest.approx(cause.wasted.core)


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
