"""Ranks are dealt to the machine's nodes in turn, and the libraries of a worker have one thread each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bottleneck_doctor.agent.trial import settings as treatments
from tests.agent.trial.trying import tried


def _machine(folder: Path, monkeypatch: pytest.MonkeyPatch, *lists: str, allowed: set[int]) -> list[set[int]]:
    for number, cores in enumerate(lists):
        (folder / f"node{number}").mkdir()
        (folder / f"node{number}" / "cpulist").write_text(cores + "\n")
    (folder / "has_cpu").write_text("0-1\n")
    bound: list[set[int]] = []
    monkeypatch.setattr(treatments, "NODES", str(folder))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: allowed)
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: bound.append(set(cores)))
    return bound


@pytest.mark.parametrize(("rank", "cores"), [("0", {0, 1, 4}), ("1", {2, 3}), ("2", {0, 1, 4})])
def test_each_rank_has_a_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: str, cores: set[int]
) -> None:
    bound = _machine(tmp_path, monkeypatch, "0-1,4-5", "2-3,6", allowed={0, 1, 2, 3, 4})
    monkeypatch.setenv("LOCAL_RANK", rank)
    told: list[str] = []
    assert treatments.numa({}, lambda why="": told.append(why)) == {}
    assert (bound, told) == ([cores], [""])


def test_where_there_is_one_node_nothing_is_bound_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = _machine(tmp_path, monkeypatch, "0-1", "2-3", allowed={2, 3})
    told: list[str] = []
    treatments.numa({}, lambda why="": told.append(why))
    assert bound == []
    assert "one node" in told[0]


@pytest.mark.slow
def test_every_pool_of_a_worker_has_one_thread() -> None:
    assert set(tried().said["pools"]) == {1}
    assert tried().told("worker_threads") == {""}


@pytest.mark.slow
def test_the_trainings_own_threads_stay_as_they_are() -> None:
    assert tried().said["outside"] == 2
