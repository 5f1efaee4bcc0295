"""The supervisor writes a snapshot only where one was asked for, and never more often than it may cost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bottleneck_doctor.launch import run_registry
from bottleneck_doctor.launch.run_registry import SnapshotWriter, ask_for_snapshot, read_snapshot
from bottleneck_doctor.model.run import Machine, Run, Snapshot

S = 1_000_000_000
TAKEN = Snapshot(
    Run(["python", "a.py"], "a.py", "/", "now", 1.5, 0), Machine("host", "6.1", "cpu", 2, 2.0), 7
)


class Supervisor:
    """Counts how often it took one."""

    def __init__(self) -> None:
        self.taken = 0

    def __call__(self) -> Snapshot:
        self.taken += 1
        return TAKEN


def ask(folder: Path, at_ns: int) -> None:
    """A watcher asks, by a clock of the test's own."""
    ask_for_snapshot(folder)
    os.utime(folder / "asked", ns=(at_ns, at_ns))


def test_without_a_watcher_nothing_is_written(tmp_path: Path) -> None:
    take = Supervisor()
    SnapshotWriter(tmp_path).look(0, take)
    assert take.taken == 0
    assert list(tmp_path.iterdir()) == []


def test_one_request_is_answered_once(tmp_path: Path) -> None:
    ask_for_snapshot(tmp_path)
    take, writer = Supervisor(), SnapshotWriter(tmp_path)
    for look in range(20):
        writer.look(look * S, take)
    assert take.taken == 1
    assert read_snapshot(tmp_path) == TAKEN
    assert sorted(path.name for path in tmp_path.iterdir()) == ["asked", "snapshot"]


@pytest.mark.parametrize(("cost_ns", "taken"), [(0, 5), (S // 100, 5), (S // 50, 3)])
def test_the_more_it_costs_the_rarer_it_is(
    cost_ns: int, taken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = iter(range(0, 10**12, cost_ns or 1))
    monkeypatch.setattr(run_registry.time, "thread_time_ns", lambda: next(cpu))
    take, writer = Supervisor(), SnapshotWriter(tmp_path)
    for look in range(40):  # a quarter of a second apart, each with a new request
        ask(tmp_path, 1 + look)
        writer.look(look * S // 4, take)
    assert take.taken == taken


def test_what_is_half_there_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "snapshot").write_bytes(b"\x81")
    assert read_snapshot(tmp_path) is None
    assert read_snapshot(tmp_path / "gone") is None


def test_a_link_in_place_of_the_request_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "asked").symlink_to(tmp_path / "precious")
    ask_for_snapshot(tmp_path)
    assert not (tmp_path / "precious").exists()


def test_a_snapshot_that_cannot_be_taken_is_not_tried_again(tmp_path: Path) -> None:
    tried = []

    def broken() -> Snapshot:
        tried.append(1)
        raise ZeroDivisionError

    writer = SnapshotWriter(tmp_path)
    for look in range(20):
        ask(tmp_path, 1 + look)
        writer.look(look * S, broken)
    assert tried == [1]
