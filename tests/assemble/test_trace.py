"""A trace of some steps becomes means per step; the traces are written by hand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.assemble import device
from bottleneck_doctor.assemble.rows import ProcessLog
from bottleneck_doctor.assemble.trace import TraceTable, read_window
from bottleneck_doctor.model.device import Convolution, Product
from bottleneck_doctor.model.profile import Profile
from tests.assemble.device_rows import profile_of, train
from tests.assemble.traces import ADD, SGEMM, Pen, pages


def traced(pen: Pen) -> TraceTable:
    table = read_window(pen.text())
    assert table is not None
    return table


def test_kernels_by_kind_and_precision() -> None:
    table = traced(pages())
    found = {(one.kind, one.precision): one for one in table.kernels}
    assert list(found) == [
        ("matmul", "bfloat16"), ("optimizer", "float32"), ("matmul", "float32"), ("convolution", "tf32"),
    ]  # fmt: skip
    float32 = found["matmul", "float32"]
    assert (float32.device_s, float32.calls, float32.median_s) == pytest.approx((200e-6, 1.0, 200e-6))
    assert [one.tensor_core_share for one in found.values()] == [1.0, None, 0.0, 1.0]
    window = table.window
    assert window.steps == 3, "the first only says where the device began with the second"
    assert window.kernels_per_step == 4
    assert window.tensor_core_share == pytest.approx(400 / 900)
    assert window.sm_active_share == pytest.approx((0.25 * 200 + 700) / 900)


def many(kernels: int = 40) -> Pen:
    """Six steps that launch so many kernels each."""
    pen = Pen()
    for at in range(0, 6000, 1000):
        pen.step(at)
        for launched in range(at + 10, at + 10 + 20 * kernels, 20):
            pen.kernel(launched, launched + 8, 9, SGEMM)
    pen.step(6000)
    return pen


def nested_call(pen: Pen, name: str, cat: str) -> None:
    """A second call inside of each launch; the kernels bear its number instead."""
    number = 10**6
    by_number = {one["args"]["correlation"]: one for one in pen.events if one["cat"] == "kernel"}
    for call in [one for one in pen.events if one["cat"] == "cuda_runtime"]:
        number += 1
        pen.on_host(name, call["ts"] - 4e12 + 1, 3, cat=cat, correlation=number)
        by_number[call["args"]["correlation"]]["args"]["correlation"] = number


def without(pen: Pen, which: Callable[[int], bool]) -> Pen:
    """Some kernels are not in the trace, by their place."""
    kernels = [one for one in pen.events if one["cat"] == "kernel"]
    lost = [id(one) for place, one in enumerate(kernels) if which(place)]
    pen.events = [one for one in pen.events if id(one) not in lost]
    return pen


def earlier(pen: Pen, kernels: int) -> Pen:
    """Of these the device's clock was wrong."""
    for one in [one for one in pen.events if one["cat"] == "kernel"][70 : 70 + kernels]:
        one["ts"] -= 70
    return pen


ODD = {
    "one kernel of 240 seems early": (lambda pen: earlier(pen, 1), 5),
    "five of 240 do": (lambda pen: earlier(pen, 5), None),
    "kernels bear the driver's number": (lambda pen: nested_call(pen, "cuLaunchKernel", "cuda_driver"), 5),
    "some marks are another loop's": (lambda pen: [pen.step(at, loader=2) for at in (-5, 6005, 6010)], 5),
    "asked twice, as at an epoch's end": (lambda pen: pen.step(2990), 5),
    "the third step's kernels were lost": (lambda pen: without(pen, lambda place: 80 <= place < 120), 2),
    "the last step's were not awaited": (lambda pen: without(pen, lambda place: place >= 210), 4),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_about_some_events_costs_their_steps_alone(name: str) -> None:
    pen, (change, steps) = many(), ODD[name]
    change(pen)
    table = read_window(pen.text())
    assert (table and table.window.steps) == steps


def test_products_and_convolutions_by_shape() -> None:
    table = traced(pages())
    assert table.products == [
        Product(64, 16, 32, "bfloat16", pytest.approx(8.0), pytest.approx(300e-6)),
        Product(64, 256, 512, "float32", pytest.approx(1.0), pytest.approx(200e-6)),
    ]
    assert table.convolutions == [
        Convolution(
            [16, 3, 224, 224], [64, 3, 7, 7], [2, 2], [3, 3], [1, 1], 1, "tf32",
            pytest.approx(1.0), pytest.approx(100e-6),
        )
    ]  # fmt: skip


def test_a_loop_far_ahead_has_kernels_of_its_own_only() -> None:
    """The device is two steps behind: what it does first was launched before the trace began."""
    pen = Pen()
    for place in range(6):
        pen.step(place * 1000)
        pen.kernel(place * 1000 + 10, place * 1000 + 2500, 1000, SGEMM)
    pen.step(6000)
    early = Pen(number=10_000)
    early.kernel(-2000, 500, 1000, ADD)
    early.kernel(-1000, 1500, 1000, ADD)
    pen.events += [event for event in early.events if event["cat"] == "kernel"]
    table = traced(pen)
    assert [one.kind for one in table.kernels] == ["matmul"]
    assert table.window.kernels_per_step == 1
    assert (table.window.wall_s, table.window.busy_s) == pytest.approx((1e-3, 1e-3))


def test_without_a_device_or_whole_steps_there_is_no_window() -> None:
    host = Pen()
    for place in range(5):
        host.step(place * 1000)
        host.on_host("aten::mm", place * 1000 + 10, 30)
    assert read_window(host.text()) is None
    assert read_window(pages(1).text()) is None
    assert read_window(json.dumps({"traceEvents": []})) is None


def test_of_many_ranks_traces_so_many_bytes_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = []
    for pid in range(1, 5):
        file = tmp_path / f"{pid}.trace.json"
        file.write_text(pages().text())
        logs.append(ProcessLog(pid, 0, 1, [], [{"fact": "trace", "file": file.name, "loader": 1}]))
    monkeypatch.setattr(device, "TRACES_BYTES_AT_MOST", 2 * file.stat().st_size)
    assert list(device.read_traces(logs, tmp_path)) == [1, 2]


def assembled(folder: Path, **fact: Any) -> Profile:
    """What is assembled of a process that wrote this fact about its trace, and trained on a device."""
    train(folder).file.fact(**fact)
    return profile_of(folder)


def test_a_trace_in_the_run_folder_becomes_facts_of_the_device(tmp_path: Path) -> None:
    (tmp_path / "100-1.trace.json").write_text(pages().text())
    profile = assembled(tmp_path, fact="trace", file="100-1.trace.json", loader=1, steps=4)
    assert profile.device is not None
    assert profile.device.window is not None
    assert profile.device.window.steps == 3
    assert profile.device.convolutions is not None
    assert "aten::mm" in {one.name for one in profile.operators}
    assert not [gap for gap in profile.gaps if gap.what == "kernels"]


@pytest.mark.parametrize(
    ("fact", "why", "do"),
    [
        ({"fact": "trace", "file": "100-1.trace.json", "loader": 1}, "no two whole steps", "TMPDIR"),
        ({"fact": "trace", "file": "/etc/passwd", "loader": 1}, "no two whole steps", "TMPDIR"),
        ({"fact": "trace_refused", "why": "somebody profiles"}, "somebody profiles", "another profiler"),
        ({"fact": "trace_refused", "why": "RuntimeError: CUPTI would stay"}, "CUPTI", "--keep-trace"),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, fact: dict[str, Any], why: str, do: str) -> None:
    profile = assembled(tmp_path, **fact)
    (gap,) = (gap for gap in profile.gaps if gap.what == "kernels")
    assert why in gap.why
    assert do in gap.do
    assert profile.device is not None
    assert profile.device.window is None
