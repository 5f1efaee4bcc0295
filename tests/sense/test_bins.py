"""Counts stay exact while their buckets widen."""

from __future__ import annotations

from bottleneck_doctor.sense.blocked import Bins


def test_events_of_one_bucket_and_key_are_counted_together() -> None:
    bins = Bins(width_ns=10)
    for t_ns, key, name in [(3, 1, "sleep"), (9, 1, "sleep"), (9, 2, "lock"), (10, 1, "lock")]:
        bins.add(t_ns, key, name)
    assert bins.rows() == [(0, 1, {"sleep": 2}), (0, 2, {"lock": 1}), (10, 1, {"lock": 1})]


def test_a_full_table_widens_and_loses_nothing() -> None:
    bins = Bins(width_ns=10, most=4)
    for t_ns in range(0, 1000, 10):
        bins.add(t_ns, 7, "storage")
    rows = bins.rows()
    assert len(rows) <= 4
    assert sum(counts["storage"] for _, _, counts in rows) == 100
    assert [t_ns % bins.width_ns for t_ns, _, _ in rows] == [0] * len(rows)


def test_more_processes_than_buckets_end_in_one_wide_bucket_each() -> None:
    bins = Bins(width_ns=10, most=2)
    for pid in range(5):
        bins.add(5, pid, "lock")
    assert [pid for _, pid, _ in bins.rows()] == [0, 1, 2, 3, 4]
