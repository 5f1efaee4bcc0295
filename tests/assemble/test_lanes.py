"""What is kept of some steps is what happened in them: held against the simulation that wrote the rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.profile import Remains, assemble
from bottleneck_doctor.model.codec import decode_profile, encode_profile
from bottleneck_doctor.model.picture import Excerpt
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Run
from tests.assemble import long_run
from tests.assemble.long_run import ORIGIN, WORKERS, Course
from tests.assemble.test_profile import writer

MS = 1_000_000
A_TICK_S = 1e-8


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Profile, Course]:
    folder = tmp_path_factory.mktemp("run")
    course = long_run.write(folder, steps=3000)
    return assemble(long_run.remains(folder, course)), course


@pytest.fixture
def kept(told: tuple[Profile, Course]) -> Excerpt:
    (found,) = told[0].excerpts
    return found


def seconds(instant: int) -> float:
    return (instant - ORIGIN) * 1e-9


def test_some_forty_steps_of_the_training_loop_are_kept(kept: Excerpt) -> None:
    assert (kept.pid, kept.steps, kept.looks) == (long_run.TRAINER, 40, 40)
    waited = sum(
        length for length, what, t in zip(kept.spans.length_s, kept.spans.what, kept.spans.t, strict=True)
        if what == "wait" and t >= kept.start_s
    )  # fmt: skip
    assert kept.wait_s == pytest.approx(waited)


def test_each_wait_is_that_of_its_batch(told: tuple[Profile, Course], kept: Excerpt) -> None:
    columns = zip(kept.spans.t, kept.spans.length_s, kept.spans.what, kept.spans.batch, strict=True)
    waits = [(t, length, batch) for t, length, what, batch in columns if what == "wait"]
    assert len(waits) == 41
    for t, length, batch in waits:
        assert batch is not None
        assert t == pytest.approx(seconds(told[1].asked[batch]), abs=A_TICK_S)
        assert t + length == pytest.approx(seconds(told[1].got[batch]), abs=A_TICK_S)


def test_each_fetch_is_that_of_its_batch_and_worker(told: tuple[Profile, Course], kept: Excerpt) -> None:
    rows = kept.fetches
    assert set(rows.worker) == set(range(WORKERS))
    for t, wall, worker, batch in zip(rows.t, rows.wall_s, rows.worker, rows.batch, strict=True):
        assert batch is not None
        assert batch % long_run.LENGTH % WORKERS == worker
        assert t == pytest.approx(seconds(told[1].begun[batch]), abs=A_TICK_S)
        assert t + wall == pytest.approx(seconds(told[1].fetched[batch]), abs=A_TICK_S)


def test_no_fetch_under_way_in_these_steps_is_missing(told: tuple[Profile, Course], kept: Excerpt) -> None:
    spans = zip(told[1].begun, told[1].fetched, strict=True)
    under_way = {
        batch
        for batch, (begin, end) in enumerate(spans)
        if seconds(begin) < kept.end_s and seconds(end) > kept.start_s
    }
    assert under_way <= set(kept.fetches.batch)
    assert len(kept.fetches.t) <= len(under_way) + 2 * WORKERS


def test_an_older_profile_without_such_steps_is_read(told: tuple[Profile, Course]) -> None:
    data = encode_profile(told[0])
    assert decode_profile(data).excerpts == told[0].excerpts
    older = json.loads(data)
    del older["excerpts"]
    assert decode_profile(json.dumps(older).encode()).excerpts == []


def test_everything_that_the_loops_thread_was_seen_in_is_kept_with_its_name(tmp_path: Path) -> None:
    file = writer(tmp_path, 100)
    file.fact(fact="loader", thing=1, dataset="Rows", file="train.py", line=1, num_workers=0)
    file.row(wire.EPOCH, MS, MS, 1, thing=1)
    for step in range(1, 41):
        t = 100 * step * MS
        file.row(wire.NEXT, t, 10 * MS, step, MS, 10 * step * MS, step, step, 1)
        file.row(wire.CLOCKS, t, 1, step * MS, step * MS, 0, wire.NOTHING, 0, 1)
        file.row(wire.DEVICE_COPY, t + 12 * MS, MS, 0, 4096, 1, 1, thing=1)
        file.row(wire.BACKWARD, t + 20 * MS, 30 * MS)
        file.row(wire.EXCHANGE, t + 40 * MS, 10 * MS, MS, thing=1)
        file.row(wire.OPTIMIZER, t + 55 * MS, 5 * MS)
        file.row(wire.DEVICE_WAIT, t + 62 * MS, 3 * MS, thing=2)
        file.row(wire.COLLECTION, t + 66 * MS, MS, 2)
        file.row(wire.OPERATION, t + 70 * MS, 4 * MS, MS, 0, 0, 1, thing=3)
        file.row(
            wire.OPERATION, t + 80 * MS, 4 * MS, MS, 0, 1, 5, thing=4
        )  # five calls, of which one ended here
        file.row(wire.BACKWARD, t + 20 * MS, 30 * MS, thread=1)  # somebody else's
    run = Run(["train.py"], "train.py", "/", "2026-01-01T00:00:00+00:00", 4.2, 0)
    (kept,) = assemble(Remains(tmp_path, run, Machine("box", "6", "cpu", 2, 2.0), 0)).excerpts
    of_a_step = [
        (round(1e3 * (t - kept.start_s)), round(1e3 * length), what)
        for t, length, what in zip(kept.spans.t, kept.spans.length_s, kept.spans.what, strict=True)
        if 0 <= t - kept.start_s < 0.1
    ]
    assert of_a_step == [
        (2, 1, "copy"), (10, 30, "backward"), (30, 10, "exchange"), (45, 5, "optimizer"), (52, 3, "sync"),
        (56, 1, "collect"), (60, 4, "checkpoint"), (90, 10, "wait"),
    ]  # fmt: skip


def test_all_ranks_together_keep_no_more_than_a_profile_has_room_for(tmp_path: Path) -> None:
    for rank in range(12):
        file = writer(tmp_path, 100 + rank)
        file.fact(fact="loader", thing=1, dataset="Rows", file="train.py", line=1, num_workers=0)
        file.row(wire.EPOCH, MS, MS, 1, thing=1)
        for step in range(1, 301):
            t = 10 * step * MS
            file.row(wire.NEXT, t, MS, step, MS // 9, step * MS, step, step, 1)
            file.row(wire.CLOCKS, t, 1, step * MS, step * MS, 0, wire.NOTHING, 0, 1)
            for call in range(6):  # a loop that logs six times a step
                file.row(wire.OPERATION, t + (2 + call) * MS, MS // 2, 0, 0, 1, 1, thing=1)
            file.row(wire.BACKWARD, t + 8 * MS, MS)
    run = Run(["train.py"], "train.py", "/", "2026-01-01T00:00:00+00:00", 3.1, 0)
    found = assemble(Remains(tmp_path, run, Machine("box", "6", "cpu", 2, 2.0), 0)).excerpts
    assert len(found) == 8
    assert sum(len(one.spans.t) for one in found) <= 800
    assert all(one.steps >= 8 and one.looks == one.steps for one in found)
