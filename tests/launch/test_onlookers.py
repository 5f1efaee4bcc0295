"""The supervisor hands over what it knows only while somebody watches, and never more than it may cost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bottleneck_doctor.launch import run_registry
from bottleneck_doctor.launch.run_registry import INTEREST_NS, Watchers, read_handover, show_interest
from bottleneck_doctor.model.run import Handover, Machine

S = 1_000_000_000
HANDOVER = Handover(7, Machine("host", "6.1", "cpu", 2, 2.0))


class Supervisor:
    """Counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> Handover:
        self.asked += 1
        return HANDOVER


def touch(folder: Path, at_ns: int) -> None:
    """Somebody looks, by a clock of the test's own."""
    show_interest(folder)
    os.utime(folder / "watched", ns=(at_ns, at_ns))


def test_nobody_watches_and_nothing_is_written(tmp_path: Path) -> None:
    ask = Supervisor()
    Watchers(tmp_path).look(0, ask)
    assert ask.asked == 0
    assert list(tmp_path.iterdir()) == []


def test_a_watcher_gets_it_at_the_next_look(tmp_path: Path) -> None:
    show_interest(tmp_path)
    Watchers(tmp_path).look(0, Supervisor())
    assert read_handover(tmp_path) == HANDOVER
    assert sorted(path.name for path in tmp_path.iterdir()) == ["handover", "watched"]


def test_at_most_every_two_seconds(tmp_path: Path) -> None:
    ask, host = Supervisor(), Watchers(tmp_path)
    for look in range(40):  # a quarter of a second apart, watched all the time
        touch(tmp_path, 1 + look)
        host.look(look * S // 4, ask)
    assert ask.asked == 5


def test_rarer_where_it_costs_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = iter(range(0, 10**12, S // 10))  # each handover costs a tenth of a second
    monkeypatch.setattr(run_registry.time, "thread_time_ns", lambda: next(cpu))
    ask, host = Supervisor(), Watchers(tmp_path)
    for look in range(40):
        touch(tmp_path, 1 + look)
        host.look(look * S, ask)
    assert ask.asked == 2


def test_it_ends_when_the_watcher_has_gone_whatever_the_wall_clock_says(tmp_path: Path) -> None:
    ask, host = Supervisor(), Watchers(tmp_path)
    touch(tmp_path, 1 << 60)  # somebody's clock is years ahead
    host.look(0, ask)
    host.look(INTEREST_NS, ask)
    assert ask.asked == 1


def test_what_is_half_there_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "handover").write_bytes(b"\x81")
    assert read_handover(tmp_path) is None
    assert read_handover(tmp_path / "gone") is None


def test_a_link_in_place_of_the_wish_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "watched").symlink_to(tmp_path / "precious")
    show_interest(tmp_path)
    assert not (tmp_path / "precious").exists()


def test_a_handover_that_cannot_be_made_is_not_tried_again(tmp_path: Path) -> None:
    asked = []

    def broken() -> Handover:
        asked.append(1)
        raise ZeroDivisionError

    host = Watchers(tmp_path)
    for look in range(20):
        touch(tmp_path, 1 + look)
        host.look(look * S, broken)
    assert asked == [1]
