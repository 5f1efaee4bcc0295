"""The map of ranks over time shows who is late, and leaves out who is like all others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.rank_map import COLUMNS_AT_MOST, ROWS_AT_MOST, rank_map
from tests.analyse.test_merge import ONE_LATE, apart, merged, noisy
from tests.analyse.test_ranks import ranks


def test_the_late_rank_stands_out_in_all_steps() -> None:
    drawn = rank_map(merged(apart(ONE_LATE, "aabb")))
    assert drawn is not None
    assert drawn.names == ["rank 0, a", "rank 1, a", "rank 2, b", "rank 3, b"]
    late = [one for one in drawn.ratio[3] if one is not None]
    others = [one for row in drawn.ratio[:3] for one in row if one is not None]
    assert min(late) > max(others)
    assert sum(late) / len(late) == pytest.approx(0.035 / 0.02, rel=0.1)
    assert len(drawn.edges) - 1 == len(late) <= COLUMNS_AT_MOST


def test_a_column_is_as_wide_as_its_steps_were_long() -> None:
    drawn = rank_map(merged(apart(ONE_LATE, "aabb")))
    assert drawn is not None
    table = ONE_LATE.loops[0].table
    assert len(drawn.ends_s) == len(drawn.edges)
    assert drawn.ends_s[-1] - drawn.ends_s[0] == pytest.approx(
        sum(table.wall_s[drawn.edges[0] : drawn.edges[-1]]), rel=1e-3
    )


def test_of_many_ranks_those_furthest_from_the_median_are_drawn() -> None:
    many = ranks(*(noisy(0.03 if rank == 7 else 0.02, rank) for rank in range(ROWS_AT_MOST + 8)))
    drawn = rank_map(many)
    assert drawn is not None
    assert len(drawn.names) == len(drawn.ratio) == ROWS_AT_MOST
    assert drawn.left_out == 8
    assert "rank 7" in drawn.names


def test_ranks_whose_loops_never_sleep_in_an_exchange_are_not_drawn() -> None:
    awake = [
        replace(loop, table=replace(loop.table, exchange_s=[0.0] * len(loop.table.t)))
        for loop in ONE_LATE.loops
    ]
    assert rank_map(replace(ONE_LATE, loops=awake)) is None
    assert rank_map(replace(ONE_LATE, loops=ONE_LATE.loops[:1])) is None


def test_steps_set_aside_are_left_blank() -> None:
    first, *others = ONE_LATE.loops
    marks = ["instrument" if 100 <= place < 200 else "" for place in range(len(first.table.t))]
    drawn = rank_map(
        replace(ONE_LATE, loops=[replace(first, table=replace(first.table, set_aside=marks)), *others])
    )
    assert drawn is not None
    assert {row.index(None) for row in drawn.ratio} == {drawn.ratio[0].index(None)}


def test_a_longer_loop_without_exchanges_of_the_same_process_does_not_matter() -> None:
    first = ONE_LATE.loops[0]
    count = len(first.table.t) + 7
    table = replace(
        first.table,
        **{name: (column * 2)[:count] for name, column in vars(first.table).items()},  # type: ignore[arg-type]
    )
    other = replace(first, loader="other", table=replace(table, steps=[3] * count, exchange_s=[0.0] * count))
    drawn = rank_map(replace(ONE_LATE, loops=[other, *ONE_LATE.loops]))
    assert drawn == rank_map(ONE_LATE)
