"""A trace is untrusted: cut, huge, hostile ones are none or sound, and a large one is read in time."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from bottleneck_doctor.assemble import trace_file
from bottleneck_doctor.assemble.trace import read_window
from tests.assemble.traces import SGEMM, SHAPES, Pen, pages


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
    for nonsense in (
        "",
        "[]",
        "{}",
        "null",
        '{"traceEvents": 3}',
        "[" * 100_000,
        '{"traceEvents": [1, [], {}]}',
    ):
        assert read_window(nonsense) is None


def test_forty_thousand_events_take_less_than_a_breath() -> None:
    pen = Pen()
    for place in range(11):
        pen.step(place * 1e6)
        for kernel in range(1200):
            at = place * 1e6 + kernel * 100
            number = pen.on_host("aten::mm", at, 30, **SHAPES)
            pen.kernel(at + 10, at + 20, 40, SGEMM, operator=number)
    text = pen.text()
    begun = time.perf_counter()
    table = read_window(text)
    taken = time.perf_counter() - begun
    assert len(pen.events) > 39_000
    assert table is not None
    assert table.window.steps == 9
    assert taken < 100 * _yardstick(text), "in proportion to reading it once, not to its square"


def _yardstick(text: str) -> float:
    begun = time.perf_counter()
    json.loads(text)
    return time.perf_counter() - begun
