"""What the page draws: lanes of some steps, and the course of the run."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.lanes import lanes_of
from bottleneck_doctor.analyse.timeline import course_of
from bottleneck_doctor.model.instruments import Series
from bottleneck_doctor.model.picture import LOOP_PIECES, WORKER_PIECES, Curve, Excerpt, Fetches, Lanes, Spans
from bottleneck_doctor.model.profile import Profile
from tests.analyse.runs import run_of


def lanes(profile: Profile) -> Lanes:
    found = lanes_of(diagnose(profile))
    assert found is not None
    return found


def rows(found: Lanes, lane: int) -> list[tuple[float, float, str, int | None]]:
    """(begin, end, what, batch) of one lane."""
    pieces = found.pieces
    columns = zip(pieces.lane, pieces.begin_s, pieces.length_s, pieces.what, pieces.batch, strict=True)
    return [(begin, begin + length, what, batch) for at, begin, length, what, batch in columns if at == lane]


def excerpt(spans: list[tuple[Any, ...]], fetches: list[tuple[Any, ...]] = (), **more: Any) -> Excerpt:
    """Spans as (begin, length, what, batch), fetches as (begin, worker, number, wall, batch), all times in
    milliseconds; a fetch is half CPU, a quarter queueing, and the rest asleep."""
    kept = Fetches()
    for begin, worker, number, wall, batch in fetches:
        cells = (begin / 1e3, worker, number, wall / 1e3, wall / 2e3, 0.0, wall / 4e3, 0.0, 0.0, batch)
        for name, cell in zip(kept.__dataclass_fields__, cells, strict=True):
            getattr(kept, name).append(cell)
    columns = list(zip(*spans, strict=True))
    table = Spans([t / 1e3 for t in columns[0]], [t / 1e3 for t in columns[1]], [*columns[2]], [*columns[3]])
    given = {"start_s": 0.0, "end_s": 0.1, "steps": 10, "looks": 10, "wait_s": 0.05, **more}
    return Excerpt("1:1", 1, 0, spans=table, fetches=kept, **given)


def drawn(spans: list[tuple[Any, ...]], fetches: list[tuple[Any, ...]] = (), **more: Any) -> Lanes:
    """The lanes of a run of which just that was kept; its workers were seen asleep in storage."""
    profile = run_of(workers=2, cpu=0.01, storage=0.01, compute=0.01)
    return lanes(replace(profile, excerpts=[excerpt(spans, fetches, **more)]))


def milliseconds(found: Lanes, lane: int) -> list[tuple[int, int, str, int | None]]:
    return [
        (round(1e3 * begin), round(1e3 * end), what, batch) for begin, end, what, batch in rows(found, lane)
    ]


@pytest.mark.parametrize(
    ("following", "rest"),
    [(7, ("compute", 6)), (9, ("unseen", None))],  # the latter where steps followed that were not sampled
)
def test_what_no_hook_saw_of_a_step_is_computing(following: int, rest: tuple[str, int | None]) -> None:
    found = drawn([(-5, 5, "wait", 6), (20, 10, "backward", None), (40, 60, "wait", following)])
    assert milliseconds(found, 0) == [
        (0, 20, "compute", 6), (20, 30, "backward", 6), (30, 40, *rest), (40, 100, "wait", following),
    ]  # fmt: skip


def test_a_batch_that_is_awaited_is_handed_over_until_it_arrives_and_then_the_worker_idles() -> None:
    spans = [(-5, 5, "wait", 1), (10, 50, "wait", 2)]
    found = drawn(spans, [(16, 1, 1, 40, 2), (80, 1, 2, 8, 4)], end_s=0.1)
    assert milliseconds(found, 1) == [
        (16, 36, "cpu", 2), (36, 46, "storage", 2), (46, 56, "queue", 2), (56, 60, "hand over", 2),
        (60, 80, "idle", None), (80, 84, "cpu", 4), (84, 86, "storage", 4), (86, 88, "queue", 4),
    ]  # fmt: skip


def test_fetches_that_were_not_looked_at_are_unseen_and_a_new_process_says_nothing_of_before() -> None:
    spans = [(-5, 5, "wait", 1), (90, 10, "wait", 2)]
    found = drawn(spans, [(0, 0, 3, 8, None), (20, 0, 5, 8, None), (40, 0, 1, 8, None)])
    between = [row for row in milliseconds(found, 1) if row[2] not in ("cpu", "storage", "queue")]
    assert between == [(8, 20, "unseen", None)]


def test_the_pieces_of_a_lane_never_overlap_and_their_names_are_known() -> None:
    spans = [
        (-5, 5, "wait", 1), (3, 90, "optimizer", None), (8, 8, "backward", None),
        (9, 3, "collect", None), (12, 30, "logging", None), (50, 50, "wait", 2),
    ]  # fmt: skip
    found = drawn(spans, [(0, 0, 3, 8, None), (7, 0, 4, 8, 2), (20, 1, 5, 8, None)])
    for lane in range(len(found.workers) + 1):
        mine = rows(found, lane)
        assert all(one[1] <= later[0] + 1e-9 for one, later in pairwise(mine))
        assert {row[2] for row in mine} <= set(WORKER_PIECES if lane else LOOP_PIECES)


def curves(profile: Profile) -> dict[str, Curve]:
    return {curve.name: curve for curve in course_of(diagnose(profile)).curves}


def sensed(profile: Profile, **values: list[float | None]) -> Profile:
    """The same run with just these sensors, read once a second."""
    count = len(next(iter(values.values())))
    return replace(profile, series=Series([float(t) for t in range(count)], values))


RUN = run_of(workers=2, cpu=0.03, compute=0.01)


def test_no_line_joins_the_steps_before_and_after_an_evaluation() -> None:
    profile = run_of(workers=2, cpu=0.03, compute=0.01)
    table = profile.loops[0].table
    before, pause = table.t[150], 5.0
    late = replace(table, t=[t if t <= before else t + pause for t in table.t])
    profile = replace(profile, loops=[replace(profile.loops[0], table=late)])
    found = curves(profile)
    for name in ("step_time_s", "data_wait_share"):
        lifted = [t for t, value in zip(found[name].t, found[name].value, strict=True) if value is None]
        assert len(lifted) == 1
        assert before < lifted[0] < before + pause
        assert found[name].t == sorted(found[name].t)


def test_counters_become_rates_between_two_readings() -> None:
    found = curves(sensed(RUN, job_cpu_s=[0.0, 1.5, 3.0, 4.0], cpu_busy_s=[10.0, 12.0, 15.0, 16.5]))
    assert found["job_cores"].t == [0.5, 1.5, 2.5]
    assert found["job_cores"].value == [1.5, 1.5, 1.0]
    assert found["other_cores"].value == [0.5, 1.5, 0.5]
