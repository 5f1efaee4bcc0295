"""All sensors together: ticked by the clock, bounded, and silent about their own failures but for a gap."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bottleneck_doctor.sense.sensors import MOST_FAILURES, Sensors, open_sensors
from tests.sense.conftest import Plant, Start
from tests.sense.fake_nvml import FakeNvml, gpu

S = 1_000_000_000


def names(sensors: Sensors) -> set[str]:
    """The sensors that delivered something."""
    return {sample.sensor for sample in sensors.samples}


def run(sensors: Sensors, seconds: float) -> list[int]:
    """Ticks in fake time whenever it is asked for; the instants of the ticks."""
    now_ns = time.monotonic_ns()
    end_ns = now_ns + int(seconds * S)
    times = []
    while now_ns < end_ns:
        times.append(now_ns)
        wait_s = sensors.tick(now_ns)
        assert wait_s >= 0
        now_ns += max(int(wait_s * S), 1_000_000)
    return times


def test_system_job_gpu_and_blocked_are_sampled(start: Start) -> None:
    child = start("print('ready', flush=True); import time; time.sleep(60)")
    sensors = Sensors(child.pid, lambda: [(child.pid, child.pid)], nvml=FakeNvml(gpu()), environment={})
    run(sensors, 3)
    sensors.close()
    assert {"system", "job", "gpu", "gpu_static", "blocked", "channel", "sensors"} <= names(sensors)
    jobs = [sample.values for sample in sensors.samples if sample.sensor == "job"]
    assert 5 <= len(jobs) <= 7
    assert {values["job_processes"] for values in jobs} == {1}
    assert sum(float(s.values["sleep"]) for s in sensors.samples if s.sensor == "blocked") > 50


def test_no_two_sensors_share_a_name() -> None:
    sensors = Sensors(os.getpid(), list, nvml=FakeNvml(gpu()), environment={})
    run(sensors, 1)
    sensors.close()
    owners: dict[str, set[str]] = {}
    for sample in sensors.samples:
        for name in sample.values:
            owners.setdefault(name, set()).add(sample.sensor)
    assert {name: by for name, by in owners.items() if len(by) > 1} == {}


def test_a_job_that_ended_is_no_failure(start: Start) -> None:
    child = start("print('ready', flush=True)")
    child.wait()
    sensors = open_sensors(child.pid, lambda: [(child.pid, child.pid)])
    run(sensors, 2)
    sensors.close()
    assert "job" not in names(sensors)
    assert not [gap for gap in sensors.gaps() if "sensor" in gap.what]


def test_a_failing_source_is_given_up_with_one_gap_and_the_others_go_on() -> None:
    calls = []

    def fetching() -> list[tuple[int, int]]:
        calls.append(1)
        raise RuntimeError("the pulse file is gone")

    sensors = Sensors(os.getpid(), fetching, nvml=FakeNvml(gpu()), environment={})
    run(sensors, 3)
    sensors.close()
    assert len(calls) == MOST_FAILURES
    assert [gap.why for gap in sensors.gaps() if gap.what == "blocked sensor"] == [
        "RuntimeError: the pulse file is gone"
    ]
    assert sum(sample.sensor == "system" for sample in sensors.samples) >= 5


def test_garbage_in_proc_becomes_a_gap(plant: Plant) -> None:
    root = plant({"proc/stat": "cpu  a b c d e f g h i j\n", "proc/1/stat": "1 (x) S garbage\n"})
    sensors = Sensors(1, lambda: [(1, 1)], root=root, nvml=FakeNvml(), environment={})
    run(sensors, 2)
    sensors.close()
    assert [gap.what for gap in sensors.gaps() if "sensor" in gap.what] == ["system sensor"]


def test_without_anything_to_read_it_still_ticks() -> None:
    sensors = Sensors(1, lambda: [(1, 1)], root=Path("/nowhere/at/all"), nvml=FakeNvml(), environment={})
    assert len(run(sensors, 1)) > 10
    sensors.close()
    assert {gap.what for gap in sensors.gaps()} >= {"pressure stall information", "disk counters"}


def test_samples_and_gaps_survive_closing() -> None:
    sensors = Sensors(os.getpid(), list, nvml=FakeNvml(gpu()), environment={})
    run(sensors, 1)
    before = sensors.samples
    sensors.close()
    assert sensors.samples == before


def test_what_watching_costs_is_in_the_samples() -> None:
    sensors = Sensors(os.getpid(), lambda: [(os.getpid(), os.getpid())], nvml=FakeNvml(gpu()), environment={})
    run(sensors, 1)
    sensors.close()
    (cost,) = [sample.values["sensors_cpu_s"] for sample in sensors.samples if sample.sensor == "sensors"]
    assert float(cost) > 0


@pytest.mark.slow
@pytest.mark.alone
def test_watching_costs_a_small_share_of_a_core(start: Start) -> None:
    children = [start("print('ready', flush=True); import time; time.sleep(60)").pid for _ in range(4)]
    sensors = open_sensors(os.getpid(), lambda: [(pid, pid) for pid in children])
    began_s = time.monotonic()
    while time.monotonic() - began_s < 3:
        time.sleep(sensors.tick(time.monotonic_ns()))
    elapsed_s = time.monotonic() - began_s
    sensors.close()
    (cost,) = [sample.values["sensors_cpu_s"] for sample in sensors.samples if sample.sensor == "sensors"]
    assert float(cost) / elapsed_s < 0.05  # twice what it may spend, and room for a machine that is busy
