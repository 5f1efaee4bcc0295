"""Calls of one kind from one line are one operation; the longest are kept one by one."""

from __future__ import annotations

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.operations import EVENTS_AT_MOST, OPERATIONS_AT_MOST, read_operations
from bottleneck_doctor.model.code import Location
from tests.assemble.logs import log, row

SITE = {"fact": "site", "site": 1, "kind": "logging", "file": "train.py", "line": 9, "function": "log"}
LOGGING = wire.OPERATIONS.index("logging")


def test_calls_from_one_line_are_one_operation() -> None:
    rows = [row(wire.OPERATION, t, t, 1000, 10, LOGGING, thing=1) for t in (1, 3, 2)]
    (found,) = read_operations(log(rows, facts=[SITE]), 0)
    assert (found.kind, found.name, found.count, found.bytes) == ("logging", "log", 3, 30)
    assert found.location == Location("train.py", 9, "log")
    assert (found.total_s, found.max_s) == (0.006, 0.003)
    assert [t for t, _ in found.events] == [0.001, 0.002, 0.003]


def test_only_the_longest_events_are_kept() -> None:
    rows = [row(wire.OPERATION, t, t, 0, 0, LOGGING, thing=1) for t in range(1, 2 * EVENTS_AT_MOST)]
    (found,) = read_operations(log(rows, facts=[SITE]), 0)
    assert (found.count, len(found.events)) == (2 * EVENTS_AT_MOST - 1, EVENTS_AT_MOST)
    assert min(took for _, took in found.events) == EVENTS_AT_MOST / 1000


def test_only_the_heaviest_lines_are_kept() -> None:
    rows = [row(wire.OPERATION, n, n, 0, 0, LOGGING, thing=n) for n in range(1, 2 * OPERATIONS_AT_MOST)]
    found = read_operations(log(rows), 0)
    assert len(found) == OPERATIONS_AT_MOST
    assert found[0].total_s == max(one.total_s for one in found)


def test_full_collections_are_told_from_young_ones() -> None:
    rows = [row(wire.COLLECTION, 10 * place, 1 + place, place) for place in range(3)]
    found = {one.name: one.count for one in read_operations(log(rows), 0)}
    assert found == {"full": 1, "young": 2}


def test_a_collection_burns_cpu_all_the_time_it_takes() -> None:
    (found,) = read_operations(log([row(wire.COLLECTION, 1, 5, 2)]), 0)
    assert (found.kind, found.cpu_s, found.total_s, found.location) == ("collection", 0.005, 0.005, None)


def test_an_operation_of_a_later_version_is_left_out() -> None:
    assert read_operations(log([row(wire.OPERATION, 1, 1, 0, 0, 99)]), 0) == []
