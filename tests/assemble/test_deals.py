"""Batches are matched to workers by the loader's own rule, and not where that rule is not certain."""

from __future__ import annotations

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.excerpts import Deals, batch_of, read_deals
from bottleneck_doctor.assemble.loaders import read_iterations
from bottleneck_doctor.model.loops import Loader
from tests.assemble.logs import MS, PID, Script, asks, ends, loader_fact, log, opens, row, trains


def deals(
    passes: list[int],
    pids: list[list[int]],
    *,
    left: tuple[int, ...] = (),
    made: dict[int, int] | None = None,
    **loader: object,
) -> Deals:
    """What passes of so many batches gave to these worker processes; those ``left`` were left early."""
    script, t = Script(), 0.0
    for place, (batches, fetcher) in enumerate(zip(passes, pids, strict=True)):
        begin = t
        opens(script, place, t, took_ms=1.0)
        for worker, pid in enumerate(fetcher):
            script.rows.append(row(wire.WORKER, begin, 0.0, pid, worker, thing=1))
        for _ in range(batches):
            t += 10
            asks(script, place, t)
            trains(script, t + 5)
        t += 10
        if place not in left:
            ends(script, place, t)
        t += 10
    found = log(script.rows, facts=[loader_fact()])
    key = f"{PID}:1"
    group = read_iterations(found, {(PID, 1): key})
    given = {"num_workers": len(pids[0]), **loader}
    return read_deals(found, group, Loader(key, "dataloader", PID, **given), made)  # type: ignore[arg-type]


def begin_of(place: int, batches: int) -> int:
    """When that pass begins, if all are as long."""
    return int(place * (10 * batches + 20) * MS)


def test_batches_are_dealt_out_in_turn() -> None:
    found = deals([7], [[201, 202, 203]])
    assert [batch_of(found, 201, MS, number) for number in (1, 2, 3)] == [0, 3, 6]
    assert [batch_of(found, 203, MS, number) for number in (1, 2)] == [2, 5]


def test_new_workers_begin_anew_and_batches_are_counted_on() -> None:
    found = deals([5, 5], [[201, 202], [211, 212]])
    assert batch_of(found, 212, begin_of(1, 5) + MS, 1) == 6


def test_workers_that_stay_go_on_counting_their_fetches() -> None:
    found = deals([5, 5], [[201, 202], [201, 202]])
    later = begin_of(1, 5) + MS
    assert [batch_of(found, 201, later, number) for number in (4, 5)] == [
        5,
        7,
    ]  # after three of the first pass
    assert [batch_of(found, 202, later, number) for number in (3, 4)] == [6, 8]


def test_what_was_made_ahead_when_a_loop_left_early_is_no_batch_and_what_follows_is_not_known() -> None:
    found = deals([5, 5], [[201, 202], [201, 202]], left=(0,))
    assert batch_of(found, 201, MS, 3) == 4
    assert batch_of(found, 201, MS, 4) is None
    assert batch_of(found, 201, begin_of(1, 5) + MS, 6) is None


def test_the_order_is_not_known_where_batches_come_as_they_are_done() -> None:
    assert deals([5], [[201, 202]], in_order=False) == {}


def test_workers_that_iterate_for_themselves_keep_their_turns_until_one_may_have_run_dry() -> None:
    found = deals([9], [[201, 202]], made={201: 6, 202: 3}, dataset_kind="iterable")
    assert [batch_of(found, 201, MS, number) for number in (1, 3, 4)] == [0, 4, None]
    assert batch_of(found, 202, MS, 3) == 5
    stay = {"dataset_kind": "iterable", "persistent_workers": True}
    assert deals([9], [[201, 202]], made={201: 6, 202: 3}, **stay) == {}


def test_a_process_that_nobody_introduced_has_no_batches() -> None:
    assert batch_of(deals([5], [[201]]), 999, MS, 1) is None
