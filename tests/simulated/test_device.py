"""The simulated device keeps time as a real one does, and the truth about it adds up."""

from __future__ import annotations

import json
from bisect import bisect_right
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.rows import Row, read_logs
from tests.agent.watching import INJECT, watched
from tests.simulated import device as devices
from tests.simulated import truth as truths
from tests.simulated.device import LAUNCHES_AT_MOST, Device, Stream
from tests.simulated.trace import CLOCKS, complete
from tests.simulated.truth import Span, Truth
from tests.simulated.watched import ROOT

MS = 1_000_000


class Clock:
    """Time that goes on when it is told to."""

    def __init__(self) -> None:
        self.t = 1_000 * MS

    def now(self) -> int:
        return self.t

    def sleep(self, seconds: float) -> None:
        self.t += int(seconds * 1e9) + devices.SPIN_NS  # late, as sleeps are: what is left needs no spinning


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    one = Clock()
    monkeypatch.setattr(devices, "now", one.now)
    monkeypatch.setattr(truths, "now", one.now)
    monkeypatch.setattr(devices.time, "sleep", one.sleep)
    return one


def test_work_is_queued_and_the_host_goes_on(clock: Clock) -> None:
    device = Device()
    device.launch("one", 0.002)
    device.launch("two", 0.003)
    one, two = device.work
    assert (one.begin, one.end) == (clock.t, clock.t + 2 * MS)
    assert (two.begin, two.end) == (one.end, one.end + 3 * MS)
    assert one.returned == two.called == clock.t


def test_a_full_queue_makes_the_host_wait_for_the_oldest_launch(clock: Clock) -> None:
    device, begin = Device(), clock.t
    for _ in range(LAUNCHES_AT_MOST):
        device.launch("one", 0.001)
    assert clock.t == begin
    device.launch("one more", 0.001)
    assert clock.t == begin + MS


def test_only_pageable_memory_makes_the_host_wait_for_a_copy(clock: Clock) -> None:
    device, begin = Device(bytes_per_s=1e9), clock.t
    device.copy(5_000_000, blocks=False)
    assert clock.t == begin
    device.copy(5_000_000, blocks=True)
    assert clock.t == begin + 10 * MS


def test_a_stream_waits_for_another_only_where_it_is_told_to(clock: Clock) -> None:
    device, side = Device(bytes_per_s=1e9), Stream(20)
    with device.on(side):
        device.copy(5_000_000, blocks=False)
    device.launch("beside", 0.001)
    assert device.mark() == clock.t + MS
    device.wait_for(side)
    device.launch("behind", 0.001)
    assert device.mark() == clock.t + 6 * MS


def test_a_mark_stands_behind_what_was_queued(clock: Clock) -> None:
    device = Device()
    device.launch("one", 0.002)
    mark = device.mark()
    assert not device.passed(mark)
    device.synchronise()
    assert device.passed(mark)


def test_idle_time_belongs_to_what_the_host_did(clock: Clock) -> None:
    device = Device()
    truth = Truth(device)
    for _ in range(truths.WARMUP_STEPS + 11):
        truth.asked.append(clock.t)
        truth.phases.append(Span("input", clock.t, clock.t + 3 * MS))
        clock.t += 4 * MS  # one of them launches
        device.launch("one", 0.004)
        device.synchronise()  # sleeps until it is over
        clock.t += 2 * MS
    answer = truth.answer()
    assert answer["steps"] == 10
    assert answer["step_s"] == pytest.approx(0.010)
    assert answer["busy"] == pytest.approx(0.4)
    assert answer["input"] == pytest.approx(0.3)
    assert answer["sync"] == pytest.approx(0.3)  # before the next batch is asked for, and until the launch
    shares = [value for name, value in answer.items() if name not in ("steps", "step_s")]
    assert sum(shares) == pytest.approx(1.0)


def test_steps_that_evaluate_do_not_count(clock: Clock) -> None:
    device = Device()
    truth = Truth(device)
    for step in range(truths.WARMUP_STEPS + 4):
        truth.asked.append(clock.t)
        clock.t += 10 * MS
        if step == truths.WARMUP_STEPS + 1:
            truth.phases.append(Span("evaluation", clock.t, clock.t + 90 * MS))
            clock.t += 90 * MS
    assert truth.answer()["steps"] == 2
    assert truth.answer()["step_s"] == pytest.approx(0.010)


def test_the_device_joins_the_trace_on_the_traces_own_clock(clock: Clock, tmp_path: Path) -> None:
    device, began = Device(), clock.t
    device.launch_graph("gemm", 3, 0.001)
    device.read()
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [{"name": CLOCKS + "3", "pid": 7, "tid": 8, "ts": 500.0}]}))
    complete(path, device, began, began, CLOCKS + "3")
    events = json.loads(path.read_text())["traceEvents"][1:]
    kernels = [one for one in events if one["cat"] == "kernel"]
    assert [one["ts"] for one in kernels] == pytest.approx([500.0, 1500.0, 2500.0])
    (launch,) = (one for one in events if one["name"] == "cudaGraphLaunch")
    assert {one["args"]["correlation"] for one in kernels} == {launch["args"]["correlation"]}
    assert {one["name"] for one in events} >= {"cudaMemcpyAsync", "cudaStreamSynchronize"}


STEPS = 32  # as many as are looked at before any are left out
ENOUGH = 5  # looks that began in time; fewer say nothing. Of 32 a crowded machine had 8
TELLS_MS = 0.2  # between a reading and the truth, typically: the marks stand inside of the loop's wait
LATE_NS = 500_000  # after the loop asked: somebody had the core before the first mark was set
POINTS = 0.02  # of a step, all looks together
SCRIPT = """
import sys
sys.argv = ["train.py", "--steps", "{steps}", "--truth", "{truth}"]
from tests.simulated.trainings.{name} import main
main()
"""


class Reading(NamedTuple):
    """One look: nanoseconds of exposed wait as read and as true, and of the whole step as read."""

    read: int
    true: int
    whole: int


def readings(name: str, folder: Path) -> list[Reading]:
    """All looks that began in time but the first, which builds what others keep."""
    truth = folder / "truth.json"
    script = SCRIPT.format(steps=STEPS, truth=truth, name=name)
    told = watched(folder, script, PYTHONPATH=f"{INJECT}:{ROOT}")
    assert told.status == 0, told.stderr
    true = json.loads(truth.read_text())["exposed"]
    rows = [row for log in read_logs(told.folder) for row in log.of(wire.DEVICE_STEP)]
    pairs = [(row, _step(true, row)) for row in rows[1:]]
    return [
        Reading(row.wait_ns, idle, row.whole_ns) for row, (begin, idle) in pairs if row.t - begin < LATE_NS
    ]


def _step(exposed: list[tuple[int, int]], row: Row) -> tuple[int, int]:
    """When the step began in which the look did, and how long its wait was exposed."""
    return exposed[bisect_right([begin for begin, _ in exposed], row.t) - 1]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("name", ["starved_by_source", "hidden_wait", "sync_bound"])
def test_each_exposed_wait_is_read_as_it_was(name: str, tmp_path: Path) -> None:
    found = readings(name, tmp_path)
    assert len(found) >= ENOUGH
    assert median(abs(one.read - one.true) for one in found) < TELLS_MS * 1e6
    whole = sum(one.whole for one in found)
    assert sum(one.read for one in found) / whole == pytest.approx(
        sum(one.true for one in found) / whole, abs=POINTS
    )
