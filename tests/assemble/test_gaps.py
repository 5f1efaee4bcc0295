"""Each idle moment of the device belongs to whoever left it without work. Traces written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import pytest

from bottleneck_doctor.assemble.trace import TraceTable, read_window
from bottleneck_doctor.model.device import DeviceWindow
from tests.assemble.traces import BACKWARD, REDUCED, Pen

STEP = 1000.0
PARTS = ("input", "launch", "sync", "transfer", "memory", "collective", "other")
HTOD = "Memcpy HtoD (Pageable -> Device)"
PINNED = "Memcpy HtoD (Pinned -> Device)"


def written(step: Callable[[Pen, float], None], steps: int = 5) -> TraceTable:
    """A loop of equal steps of a millisecond each."""
    pen = Pen()
    for place in range(steps):
        pen.step(place * STEP)
        step(pen, place * STEP)
    pen.step(steps * STEP)
    table = read_window(pen.text())
    assert table is not None
    assert table.window.steps == steps - 1
    return table


def shares(table: TraceTable) -> dict[str, float]:
    """The parts of a step in milliseconds, those that are nothing left out; together they are all of it."""
    window = table.window
    assert window.wall_s == pytest.approx(STEP * 1e-6)
    found = {name: round(getattr(window, name + "_s") * 1e3, 6) for name in (*PARTS, "busy")}
    assert sum(found.values()) == pytest.approx(window.wall_s * 1e3)
    return {name: value for name, value in found.items() if value}


def saturated(pen: Pen, at: float) -> None:
    """Launched early, two kernels fill the step but for a pause of 2 us between them."""
    pen.kernel(at + 10, at + 500, 498)
    pen.kernel(at + 20, at + 1000, 500)


def starved(pen: Pen, at: float) -> None:
    """600 us in the loader, then 100 us of other work until the launch."""
    pen.on_host("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at, 600)
    pen.kernel(at + 700, at + 710, 290)


def launching(pen: Pen, at: float) -> None:
    """Ten kernels of 20 us, one launched every 100 us, from the backward thread as well."""
    for place in range(10):
        begin = at + 100 * place
        pen.kernel(begin, begin + 10, 20, thread=BACKWARD if place % 2 else 100)
    pen.on_host("autograd::engine::evaluate_function: MulBackward0", at + 100, 5, BACKWARD)


def syncing(pen: Pen, at: float) -> None:
    """A value is read back at the end of each step; the next kernel comes 300 us after the device ran dry."""
    pen.kernel(at + 290, at + 300, 700)
    pen.on_host("bdoc#wait#7", at + 400, 615)
    pen.call("cudaStreamSynchronize", at + 405, 605)


def copying(pen: Pen, at: float) -> None:
    """A pageable copy of 400 us blocks the loop, then the kernel is launched."""
    pen.on_host("bdoc#copy#3", at, 450)
    pen.kernel(at, at + 20, 400, HTOD, cat="gpu_memcpy", launch="cudaMemcpyAsync", took=440)
    pen.kernel(at + 490, at + 500, 500)


def awaiting(pen: Pen, at: float) -> None:
    """Pinned copies on a stream of their own; the kernel, launched at once, waits for the second of them."""
    pen.kernel(at, at + 10, 200, PINNED, cat="gpu_memcpy", launch="cudaMemcpyAsync", stream=20)
    pen.kernel(at + 5, at + 220, 270, PINNED, cat="gpu_memcpy", launch="cudaMemcpyAsync", stream=20)
    pen.kernel(at + 20, at + 500, 500)


def prefetching(pen: Pen, at: float) -> None:
    """The same as `launching`, and meanwhile the next batch is copied by a stream that nobody waits for."""
    launching(pen, at)
    pen.kernel(at + 5, at + 10, 850, PINNED, cat="gpu_memcpy", launch="cudaMemcpyAsync", stream=20)


def allocating(pen: Pen, at: float) -> None:
    """The allocator asks the driver for 200 us."""
    pen.call("cudaMalloc", at + 100, 200)
    pen.kernel(at + 300, at + 310, 690)


def exchanging(pen: Pen, at: float) -> None:
    """A collective runs 400 us, half of it beside a kernel."""
    pen.kernel(at, at + 10, 590)
    pen.kernel(at + 20, at + 410, 400, REDUCED, stream=20)
    pen.kernel(at + 30, at + 810, 190)


def saving(pen: Pen, at: float) -> None:
    """A checkpoint is written while the device waits."""
    pen.on_host("bdoc#checkpoint#2", at + 50, 400)
    pen.kernel(at + 490, at + 500, 500)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (saturated, {"busy": 1.0}),
        (starved, {"busy": 0.29, "input": 0.6, "launch": 0.11}),
        (launching, {"busy": 0.2, "launch": 0.8}),
        (syncing, {"busy": 0.7, "sync": 0.3}),
        (copying, {"busy": 0.5, "transfer": 0.44, "launch": 0.06}),
        (awaiting, {"busy": 0.5, "transfer": 0.47, "launch": 0.03}),
        (prefetching, {"busy": 0.2, "launch": 0.8}),
        (allocating, {"busy": 0.69, "memory": 0.2, "launch": 0.11}),
        (exchanging, {"busy": 0.78, "collective": 0.21, "launch": 0.01}),
        (saving, {"busy": 0.5, "other": 0.4, "launch": 0.1}),
    ],
)
def test_idle_time_belongs_to_whoever_caused_it(
    step: Callable[[Pen, float], None], expected: dict[str, float]
) -> None:
    assert shares(written(step)) == pytest.approx(expected)


def test_idleness_after_a_wait_goes_to_the_line_that_waited() -> None:
    assert written(syncing).idle_by_site == pytest.approx({7: 300e-6})


def test_a_wait_after_which_the_loop_goes_for_its_batch_costs_only_what_is_left() -> None:
    def step(pen: Pen, at: float) -> None:
        pen.on_host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 50, 100)
        syncing(pen, at)

    table = written(step)
    assert shares(table) == pytest.approx({"busy": 0.7, "sync": 0.2, "input": 0.1})
    assert table.idle_by_site == pytest.approx({7: 200e-6})


def test_what_other_threads_do_is_nobodys_reason() -> None:
    def step(pen: Pen, at: float) -> None:
        pen.call("cudaStreamSynchronize", at, 900, thread=333)
        pen.on_host("enumerate(DataLoader)#_Prefetch.__next__", at, 900, thread=333)
        launching(pen, at)

    assert shares(written(step)) == pytest.approx({"busy": 0.2, "launch": 0.8})


@pytest.mark.parametrize(
    ("step", "host_ms"),
    [(saturated, 1.0), (starved, 0.4), (syncing, 0.395), (copying, 0.56), (saving, 0.6), (allocating, 0.8)],
)
def test_the_hosts_own_time_is_without_its_waits(step: Callable[[Pen, float], None], host_ms: float) -> None:
    assert written(step).window.host_s * 1e3 == pytest.approx(host_ms)


def test_a_launch_into_a_full_queue_is_a_wait() -> None:
    def step(pen: Pen, at: float) -> None:
        pen.kernel(at + 10, at + 1000, 1000, took=800)

    assert written(step).window.host_s * 1e3 == pytest.approx(0.2)


def test_the_parts_are_fields_of_the_window() -> None:
    assert {name + "_s" for name in PARTS} <= {one.name for one in fields(DeviceWindow)}
