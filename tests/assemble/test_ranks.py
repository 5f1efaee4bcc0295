"""Exchanges are told from the passes they lie in; collectives inside a pass are not counted twice."""

from __future__ import annotations

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.operations import read_collectives, read_ranks
from bottleneck_doctor.assemble.rows import Row
from bottleneck_doctor.assemble.steps import exchanges, read_marks
from tests.assemble.logs import MS, PID, log, row


def passes(t_ms: float, shared: bool = True, closes: bool = False) -> list[Row]:
    """A backward pass of 10 ms: 6 ms of its own, then 1 ms on the CPU, 1 ms without a core, 2 ms asleep."""
    values = (1 * MS, 1 * MS, 6 * MS)
    whole = row(wire.BACKWARD, t_ms, 10.0)
    rest = row(wire.EXCHANGE, t_ms + 6, 4.0, *values, thing=int(shared))
    step = row(wire.OPTIMIZER, t_ms - 1 if closes else t_ms + 11, 12.0 if closes else 1.0)
    return [whole, rest, step]


def test_what_a_thread_sleeps_in_an_exchange_is_not_backward() -> None:
    marks = read_marks(log(passes(100)), 0)
    assert marks.exchange.between(0, 10**12) == 2 * MS
    assert marks.backward.between(0, 10**12) == 8 * MS


def test_a_pass_that_exchanges_nothing_is_all_backward() -> None:
    marks = read_marks(log(passes(100, shared=False)), 0)
    assert marks.exchange.between(0, 10**12) == 0
    assert marks.backward.between(0, 10**12) == 10 * MS


def test_a_collective_counts_once_wherever_it_is_called() -> None:
    inside, outside = (row(wire.COLLECTIVE, t, 1.0, 0, 0) for t in (107.0, 120.0))
    found = exchanges(log([*passes(100), inside, outside]), 0)
    assert sorted(found) == [(106 * MS, 2 * MS), (120 * MS, 1 * MS)]


def test_another_threads_exchanges_are_its_own() -> None:
    assert exchanges(log([row(wire.COLLECTIVE, 5, 1.0, thread=3)]), 0) == []


def test_clocks_that_could_not_be_read_leave_the_time_as_it_is() -> None:
    rest = row(wire.EXCHANGE, 100, 4.0, wire.NOTHING, wire.NOTHING, thing=1)
    assert exchanges(log([rest]), 0) == [(100 * MS, 4 * MS)]


def test_passes_are_summed_up_by_whether_they_exchanged() -> None:
    rows = [one for place in range(4) for one in passes(100 + 20 * place, shared=place == 3)]
    rows = [one for one in rows if one.kind != wire.OPTIMIZER] + [row(wire.OPTIMIZER, 175, 1.0)]
    local, shared = read_ranks([log(rows)]).passes
    assert (local.shared, local.count, shared.shared, shared.count) == (False, 3, True, 1)
    assert shared.per_step == local.per_step == 4.0
    seconds = (shared.local_s, shared.exchange_s, shared.exchange_cpu_s)
    assert seconds == pytest.approx((0.006, 0.002, 0.001))


def test_passes_per_step_are_counted_between_steps_though_some_were_not_looked_at() -> None:
    """Four in each of five optimizer steps; two of the second's were missed."""
    rows = [
        one
        for place in range(20)
        for one in passes(100 + 20 * place, shared=True)
        if one.kind != wire.OPTIMIZER and place not in (5, 6)
    ]
    steps = [row(wire.OPTIMIZER, 175 + 80 * place, 1.0) for place in range(5)]
    (shared,) = read_ranks([log([*rows, *steps])]).passes
    assert shared.per_step == 4.0


@pytest.mark.parametrize("closes", [False, True])
def test_passes_that_an_optimizer_calls_for_itself_are_counted(closes: bool) -> None:
    (one,) = read_ranks([log([*passes(100, closes=closes), *passes(200, closes=closes)])]).passes
    assert one.in_optimizer == (2 if closes else 0)


def test_a_wrapped_model_knows_its_buckets_by_its_newest_books() -> None:
    built = {"fact": "parallel", "kind": "ddp", "world_size": 2, "parameters": 3, "gradient_bytes": 12}
    single = {**built, "kind": "dp", "devices": 4}
    books = {"fact": "ddp_books", "model": 2, "bucket_sizes": "12", "unused_parameter_size": 0}
    rebuilt = {**books, "rebuilt_bucket_sizes": "4, 8"}
    dp, first, second = read_ranks([log([], facts=[single, built, dict(built), books, rebuilt])]).parallel
    assert (dp.kind, dp.devices, dp.bucket_bytes) == ("dp", 4, None)
    assert (first.bucket_bytes, first.unused_bytes) == (None, None)
    assert (second.bucket_bytes, second.unused_bytes) == ([4, 8], 0)


def test_collectives_are_listed_by_line() -> None:
    site = {"fact": "site", "site": 1, "kind": "all_reduce", "file": "train.py", "line": 9}
    rows = [row(wire.COLLECTIVE, t, 2.0, 0, 0, 64, thing=1) for t in (10, 20)]
    (found,) = read_collectives(log(rows, facts=[site]))
    assert (found.pid, found.kind, found.name, found.count, found.bytes) == (
        PID,
        "exchange",
        "all_reduce",
        2,
        128,
    )
    assert found.location is not None
    assert (found.location.line, found.total_s) == (9, pytest.approx(0.004))
