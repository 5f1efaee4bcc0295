"""Which steps are kept as they were, and what is kept of them; hostile traces are none or sound."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble import trace_file
from bottleneck_doctor.assemble.excerpts import STEPS_AIMED_AT, ExcerptRange, choose
from bottleneck_doctor.assemble.loaders import SampledArrival
from bottleneck_doctor.assemble.profile import assemble
from bottleneck_doctor.assemble.steps import ArrivalPoint
from bottleneck_doctor.assemble.stretches import Sums
from bottleneck_doctor.assemble.trace import read_window
from bottleneck_doctor.model.codec import decode_profile, encode_profile
from bottleneck_doctor.model.picture import Excerpt
from bottleneck_doctor.model.profile import Profile
from tests.assemble.logs import MS, row
from tests.assemble.test_profile import remains, writer
from tests.assemble.traces import Pen, pages

A_TICK_S = 1e-8
STEPS, WORKERS, PREFETCH = 3000, 16, 2
TRAINER, FIRST_WORKER = 100, 200
ORIGIN = 10**12
BEGIN, BUILT = ORIGIN + 3000 * MS, ORIGIN + 3060 * MS  # of the iterator
COST, FETCH, HAND_OVER = 20 * MS, 470 * MS, MS  # the loop waits for a third of its time


@dataclass
class Course:
    """What happened, in nanoseconds, batch by batch: when it was asked for, got, begun and fetched."""

    asked: list[int] = field(default_factory=list)
    got: list[int] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    fetched: list[int] = field(default_factory=list)


def simulated(chance: random.Random) -> Course:
    """The loop asks, the workers make batches in turn, never more than so many ahead."""
    course, t = Course(), BUILT
    for batch in range(STEPS):
        before, ahead = batch - WORKERS, batch - PREFETCH * WORKERS
        free = course.fetched[before] if before >= 0 else BUILT
        ordered = course.got[ahead] if ahead >= 0 else BUILT
        course.begun.append(max(free, ordered) + MS // 10)
        slow = 3.0 if chance.random() < 0.01 else 1.0
        course.fetched.append(course.begun[-1] + int(FETCH * slow * chance.uniform(0.8, 1.2)))
        course.asked.append(t)
        course.got.append(max(t + MS // 5, course.fetched[-1] + HAND_OVER))
        t = course.got[-1] + int(COST * chance.uniform(0.95, 1.05))
    return course


def write(folder: Path, course: Course) -> None:
    """The rows and facts of the loop and of its workers."""
    loop, waited = writer(folder, TRAINER), BUILT - BEGIN
    loop.fact(fact="loader", thing=1, dataset="Photos", num_workers=WORKERS, file="train.py", line=41)
    loop.row(wire.EPOCH, BEGIN, BUILT - BEGIN, 1, thing=1)
    for worker in range(WORKERS):
        loop.row(wire.WORKER, BEGIN, 0, FIRST_WORKER + worker, worker, thing=1)
    for batch, (asked, got) in enumerate(zip(course.asked, course.got, strict=True)):
        waited += got - asked
        loop.row(wire.NEXT, asked, got - asked, batch + 1, MS // 5, waited, batch, batch, 1)
        loop.row(wire.CLOCKS, asked, 1, batch * 25 * MS, batch * 30 * MS, batch * MS // 3, 0, MS // 9, 1)
        loop.row(wire.BACKWARD, got + 12 * MS, 11 * MS)
    for worker in range(WORKERS):
        file = writer(folder, FIRST_WORKER + worker)
        file.fact(fact="worker", worker=worker)
        for count, batch in enumerate(range(worker, STEPS, WORKERS), 1):
            begin, took = course.begun[batch], course.fetched[batch] - course.begun[batch]
            file.row(wire.FETCH, begin, took, took // 3, took // 20, took // 3, 5_000_000)
            file.row(wire.BATCH, begin, 6 * MS, 5 * MS, 32, 5_100_000)
            file.row(wire.COUNT, begin, 0, count, 32, 64)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Profile, Course]:
    folder, course = tmp_path_factory.mktemp("run"), simulated(random.Random(11))
    write(folder, course)
    return assemble(replace(remains(folder), origin_ns=ORIGIN)), course


@pytest.fixture
def kept(trained: tuple[Profile, Course]) -> Excerpt:
    (found,) = trained[0].excerpts
    return found


def seconds(instant: int) -> float:
    return (instant - ORIGIN) * 1e-9


def test_some_forty_steps_of_the_training_loop_are_kept_that_are_like_the_run(
    trained: tuple[Profile, Course], kept: Excerpt
) -> None:
    assert (kept.pid, kept.steps, kept.looks) == (TRAINER, 40, 40)
    loop = max(trained[0].loops, key=lambda one: one.steps)
    assert (kept.end_s - kept.start_s) / kept.steps == pytest.approx(loop.wall_s / loop.steps, rel=0.25)
    assert kept.wait_s / (kept.end_s - kept.start_s) == pytest.approx(loop.wait_s / loop.wall_s, abs=0.1)
    assert decode_profile(encode_profile(trained[0])).excerpts == [kept]


def test_each_wait_is_that_of_its_batch(trained: tuple[Profile, Course], kept: Excerpt) -> None:
    columns = zip(kept.spans.t, kept.spans.length_s, kept.spans.what, kept.spans.batch, strict=True)
    waits = [(t, length, batch) for t, length, what, batch in columns if what == "wait"]
    assert len(waits) == 41
    assert kept.wait_s == pytest.approx(sum(length for t, length, _ in waits if t >= kept.start_s))
    for t, length, batch in waits:
        assert batch is not None
        assert t == pytest.approx(seconds(trained[1].asked[batch]), abs=A_TICK_S)
        assert t + length == pytest.approx(seconds(trained[1].got[batch]), abs=A_TICK_S)


def test_each_fetch_under_way_is_kept_with_its_batch_and_worker(
    trained: tuple[Profile, Course], kept: Excerpt
) -> None:
    rows = kept.fetches
    assert set(rows.worker) == set(range(WORKERS))
    for t, wall, worker, batch in zip(rows.t, rows.wall_s, rows.worker, rows.batch, strict=True):
        assert batch is not None
        assert batch % WORKERS == worker
        assert t == pytest.approx(seconds(trained[1].begun[batch]), abs=A_TICK_S)
        assert t + wall == pytest.approx(seconds(trained[1].fetched[batch]), abs=A_TICK_S)
    spans = zip(trained[1].begun, trained[1].fetched, strict=True)
    under_way = {
        batch
        for batch, (begin, end) in enumerate(spans)
        if seconds(begin) < kept.end_s and seconds(end) > kept.start_s
    }
    assert under_way <= set(rows.batch)
    assert len(rows.t) <= len(under_way) + 2 * WORKERS


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
        file.row(wire.OPERATION, t + 80 * MS, 4 * MS, MS, 0, 1, 5, thing=4)  # the last of five calls
        file.row(wire.BACKWARD, t + 20 * MS, 30 * MS, thread=1)  # somebody else's
    (kept,) = assemble(remains(tmp_path)).excerpts
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
    found = assemble(remains(tmp_path)).excerpts
    assert len(found) == 8
    assert sum(len(one.spans.t) for one in found) <= 800
    assert all(one.steps >= 8 and one.looks == one.steps for one in found)


def points(steps: Sequence[tuple[float, float, int]]) -> list[ArrivalPoint]:
    """A loop's points: (milliseconds since the last, of these waited, steps covered) each."""
    found, t = [], 1000.0
    for wall, wait, covered in steps:
        t += wall
        arrival = SampledArrival(row(wire.NEXT, t - wait / covered, wait / covered), row(wire.CLOCKS, t))
        found.append(ArrivalPoint(arrival, 0, covered, int(wait * MS)))
    return found


def chosen(steps: Sequence[tuple[float, float, int]], slots: int = 0, **more: object) -> ExcerptRange | None:
    given: dict[str, object] = {"disturbed": [], "evaluation": Sums(), "aimed_at": STEPS_AIMED_AT, **more}
    return choose(points(steps), slots, **given)  # type: ignore[arg-type]


def kept_of(steps: Sequence[tuple[float, float, int]], slots: int = 0, **more: object) -> ExcerptRange:
    found = chosen(steps, slots, **more)
    assert found is not None
    return found


def test_no_stretch_lies_in_an_instruments_window() -> None:
    steps = [(10.0, 4.0, 1)] * 120
    window = ((1000 + 300) * MS, (1000 + 1100) * MS)
    found = kept_of(steps, disturbed=[window])
    assert found.end <= window[0] or found.begin >= window[1]
    assert chosen(steps, disturbed=[(0, 10**15)]) is None


def test_evaluation_is_kept_out_unless_it_comes_every_few_steps() -> None:
    steps = [(10.0, 4.0, 1)] * 200
    once = Sums([((1000 + 1500) * MS, 5 * MS)])
    apart = kept_of(steps, evaluation=once)
    assert not once.between(apart.begin, apart.end)
    always = Sums([((1000 + 10 * step) * MS, 2 * MS) for step in range(200)])
    assert chosen(steps, evaluation=always) is not None


def test_a_run_of_a_dozen_steps_keeps_what_it_has_and_what_shows_nothing_is_not_kept() -> None:
    found = kept_of([(10.0, 4.0, 1)] * 14)
    assert 8 <= found.steps <= 13
    assert chosen([(10.0, 4.0, 1)] * 3) is None
    assert chosen([(300.0, 90.0, 30)] * 200) is None, "too far apart"
    assert chosen([]) is None


def test_a_file_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "t.json"
    file.write_text(pages().text())
    assert read_window(file) is not None
    monkeypatch.setattr(trace_file, "BYTES_AT_MOST", file.stat().st_size - 1)
    assert read_window(file) is None
    assert read_window(tmp_path / "none.json") is None


def test_of_two_devices_the_busiest_is_read_with_the_calls_that_were_for_it() -> None:
    pen = Pen()
    for place in range(6):
        at = place * 1000.0
        pen.step(at)
        for device in (0, 1):
            for kernel in range(5):
                pen.kernel(at + 10 + kernel + 20 * device, at + 100 + 20 * kernel, 18 - device, device=device)
    pen.step(6000)
    read = trace_file.read_timeline(pen.text())
    assert read is not None
    assert (len(read.work), len(read.calls)) == (30, 30)
    table = read_window(pen.text())
    assert table is not None
    assert table.window.steps == 5


def test_a_hostile_or_broken_trace_is_none_or_sound() -> None:
    """Anything may stand anywhere: no exception, and what comes back is finite."""
    text, luck = pages().text(), random.Random(7)
    for _ in range(20):
        assert read_window(text[: luck.randrange(len(text))]) is None
    odd = [None, True, -1, 1e300, "x", [], {}, [[]], float("inf"), float("nan"), 2**80, "[[[["]
    for _ in range(100):
        whole = json.loads(text)
        for _ in range(20):
            event = luck.choice(whole["traceEvents"])
            event[luck.choice([*event, "args"])] = luck.choice(odd)
            given = luck.choice(whole["traceEvents"]).get("args")
            if isinstance(given, dict) and given:
                given[luck.choice(list(given))] = luck.choice(odd)
        table = read_window(json.dumps(whole))
        assert table is None or 0 <= table.window.wall_s < 1e13
    for nonsense in ("", "[]", "{}", "null", '{"traceEvents": 3}', "[" * 100_000, '{"traceEvents": [1, []]}'):
        assert read_window(nonsense) is None
