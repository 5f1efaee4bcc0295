"""Which steps are kept as they were, and what is kept of them; hostile traces are none or sound."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble import trace_file
from bottleneck_doctor.assemble.excerpts import STEPS_AIMED_AT, ExcerptRange, choose
from bottleneck_doctor.assemble.loaders import SampledArrival
from bottleneck_doctor.assemble.profile import Remains, assemble
from bottleneck_doctor.assemble.steps import ArrivalPoint
from bottleneck_doctor.assemble.stretches import Sums
from bottleneck_doctor.assemble.trace import read_window
from bottleneck_doctor.model.codec import decode_profile, encode_profile
from bottleneck_doctor.model.picture import Excerpt
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Run
from tests.assemble import long_run
from tests.assemble.logs import MS, row
from tests.assemble.long_run import ORIGIN, WORKERS, Course
from tests.assemble.test_profile import writer
from tests.assemble.traces import Pen, pages

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


def test_some_forty_steps_of_the_training_loop_are_kept_that_are_like_the_run(
    told: tuple[Profile, Course], kept: Excerpt
) -> None:
    assert (kept.pid, kept.steps, kept.looks) == (long_run.TRAINER, 40, 40)
    loop = max(told[0].loops, key=lambda one: one.steps)
    assert (kept.end_s - kept.start_s) / kept.steps == pytest.approx(loop.wall_s / loop.steps, rel=0.25)
    assert kept.wait_s / (kept.end_s - kept.start_s) == pytest.approx(loop.wait_s / loop.wall_s, abs=0.1)
    assert decode_profile(encode_profile(told[0])).excerpts == [kept]


def test_each_wait_is_that_of_its_batch(told: tuple[Profile, Course], kept: Excerpt) -> None:
    columns = zip(kept.spans.t, kept.spans.length_s, kept.spans.what, kept.spans.batch, strict=True)
    waits = [(t, length, batch) for t, length, what, batch in columns if what == "wait"]
    assert len(waits) == 41
    assert kept.wait_s == pytest.approx(sum(length for t, length, _ in waits if t >= kept.start_s))
    for t, length, batch in waits:
        assert batch is not None
        assert t == pytest.approx(seconds(told[1].asked[batch]), abs=A_TICK_S)
        assert t + length == pytest.approx(seconds(told[1].got[batch]), abs=A_TICK_S)


def test_each_fetch_under_way_is_kept_with_its_batch_and_worker(
    told: tuple[Profile, Course], kept: Excerpt
) -> None:
    rows = kept.fetches
    assert set(rows.worker) == set(range(WORKERS))
    for t, wall, worker, batch in zip(rows.t, rows.wall_s, rows.worker, rows.batch, strict=True):
        assert batch is not None
        assert batch % long_run.LENGTH % WORKERS == worker
        assert t == pytest.approx(seconds(told[1].begun[batch]), abs=A_TICK_S)
        assert t + wall == pytest.approx(seconds(told[1].fetched[batch]), abs=A_TICK_S)
    spans = zip(told[1].begun, told[1].fetched, strict=True)
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


def test_a_steady_run_gives_forty_steps_after_its_warm_up() -> None:
    found = kept_of([(10, 4, 1)] * 300, slots=20)
    assert (found.steps, found.looks) == (40, 40)
    assert found.first >= 40


@pytest.mark.parametrize("odd", [(10.0, 9.0, 1), (30.0, 6.0, 1)])
def test_steps_that_wait_and_take_as_long_as_most_are_preferred(odd: tuple[float, float, int]) -> None:
    found = kept_of([odd] * 60 + [(10.0, 2.0, 1)] * 300)
    assert found.first >= 59
    assert found.wait / found.wall == pytest.approx(0.2)


def test_a_few_steps_that_were_all_seen_are_better_than_many_that_were_not() -> None:
    dense, thin = [(10.0, 3.0, 1)] * 33, [(100.0, 30.0, 10)] * 200
    found = kept_of([*dense, *thin])
    assert found.steps == found.looks == 20


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


def test_what_stands_between_events_and_in_names_does_not_matter(tmp_path: Path) -> None:
    text = pages().text()
    whole = trace_file.read_timeline(text)
    assert whole is not None
    file = tmp_path / "t.json"
    file.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [{}], **json.loads(text)}, indent=2))
    assert trace_file.read_timeline(file) == whole
    file.write_bytes(text.replace("aten::mm", "aten\t::mm", 1).encode() + b"\n")  # names are users', too
    assert trace_file.read_timeline(file) is not None


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
    for _ in range(60):
        assert read_window(text[: luck.randrange(len(text))]) is None
    odd = [None, True, -1, 1e300, "x", [], {}, [[]], float("inf"), float("nan"), 2**80, "[[[["]
    for _ in range(300):
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
