"""The truth about the simulated device adds up, and what it did joins a trace of the host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.simulated import device as devices
from tests.simulated import truth as truths
from tests.simulated.device import Device
from tests.simulated.trace import CLOCKS, complete
from tests.simulated.truth import Truth

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


def test_idle_time_belongs_to_what_the_host_did(clock: Clock) -> None:
    device = Device()
    truth = Truth(device)
    for _ in range(truths.WARMUP_STEPS + 11):
        truth.asked.append(clock.t)
        truth.waits.append((clock.t, clock.t + 3 * MS))
        clock.t += 4 * MS  # one of them launches
        device.launch("one", 0.004)
        device.synchronise()  # sleeps until it is over
        clock.t += 2 * MS
    answer = truth.answer()
    assert answer["steps"] == 10
    assert answer["step_s"] == pytest.approx(0.010)
    assert answer["busy"] == pytest.approx(0.4)
    assert answer["input"] == pytest.approx(0.3)


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
