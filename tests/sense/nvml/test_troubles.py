"""Drivers that refuse, lose a GPU, are old, or do not answer; through the real binding."""

from __future__ import annotations

import pytest

from bottleneck_doctor.sense.gpus import MOST_FAILURES
from tests.sense.nvml.conftest import ONE, Ask

TWO = (ONE, "gpu name=H100 uuid=GPU-bb")


@pytest.mark.parametrize(
    ("code", "why", "do"),
    [
        (3, "Not Supported", ""),
        (4, "Insufficient Permissions", "run bdoc as"),
        (999, "Unknown Error", "update"),
    ],
)
def test_a_driver_that_refuses_everything_is_one_gap_per_reason(
    ask: Ask, code: int, why: str, do: str
) -> None:
    found = ask("gpus", ONE, f"fail * {code} 1", readings=MOST_FAILURES + 1)
    refused = [gap for gap in found.gaps if "stopped" not in gap[1]]
    assert [gap[1].partition(":")[0] for gap in refused] == [why]
    assert refused[0][2].startswith(do)
    assert "PowerUsage" in refused[0][1]
    assert found.readings[-1] == {}


@pytest.mark.parametrize("code", [3, 4, 15, 999])
def test_a_driver_that_refuses_even_its_list_of_gpus(ask: Ask, code: int) -> None:
    found = ask("gpus", ONE, f"fail * {code}")
    assert (found.static, found.readings) == ({}, [{}])
    assert found.gaps[0][1].startswith("NVML fails at GPU 0: ")


def test_one_call_that_is_refused_costs_only_its_value(ask: Ask) -> None:
    found = ask("gpus", ONE, "fail nvmlDeviceGetPowerUsage 3")
    assert found.readings[0]["gpu0_busy_share"] == 0.5
    assert "gpu0_power_w" not in found.readings[0]
    assert found.gaps == [["gpu counters", "Not Supported: PowerUsage", ""]]


def test_a_gpu_lost_midway_is_given_up_and_the_other_read_on(ask: Ask) -> None:
    found = ask("gpus", *TWO, "fail * 15 6 1", readings=MOST_FAILURES + 8)
    assert "gpu1_busy_share" in found.readings[0]
    last = {name.partition("_")[0] for name in found.readings[-1]}
    assert last == {"gpu0"}
    assert ["gpu counters", "H100 (cuda:1) stopped answering NVML"] in [gap[:2] for gap in found.gaps]
    assert "GPU is lost" in " ".join(gap[1] for gap in found.gaps)


def test_a_driver_of_2021_is_asked_by_the_names_it_knows(ask: Ask) -> None:
    lines = (f"{ONE} reasons=4", "process pid=1000 memory=10e9")
    found = ask("gpus", *lines, library="old")
    assert found.readings[0]["gpu0_clocks_power_cap"] == 1
    assert found.readings[0]["gpu0_job_memory_bytes"] == 10e9
    assert found.gaps == []


@pytest.mark.parametrize(
    ("code", "why", "do"),
    [
        (9, "Driver Not Loaded", "load the driver"),
        (18, "version mismatch", "driver and library differ"),
        (999, "Unknown Error", "install the NVIDIA driver"),
    ],
)
def test_a_driver_that_does_not_start_names_what_to_do(ask: Ask, code: int, why: str, do: str) -> None:
    (gap,) = ask("gpus", f"init {code}").gaps
    assert gap[1].startswith("NVML does not start: ")
    assert why in gap[1]
    assert gap[2].startswith(do)


def test_a_slow_call_delays_no_tick_and_is_not_made_again(ask: Ask) -> None:
    found = ask("sensors", ONE, "slow nvmlDeviceGetTemperature 1500", seconds=4)
    assert found.slowest_tick_s < 1
    assert len(found.readings) >= 3
    assert "gpu0_temperature_c" not in found.readings[-1]
    assert [gap[1] for gap in found.gaps] == ["took 1.5 s to answer, and is not asked again: Temperature"]


@pytest.mark.parametrize("call", ["nvmlInitWithFlags", "nvmlDeviceGetUtilizationRates"])
def test_a_driver_that_hangs_holds_up_neither_ticks_nor_the_end(ask: Ask, call: str) -> None:
    """The process itself must be able to end as well: its exit status is looked at."""
    found = ask("sensors", ONE, f"slow {call} 30000", seconds=1)
    assert found.slowest_tick_s < 1
    assert found.closing_s < 3
    assert found.readings == []


def test_a_driver_that_hangs_holds_up_the_machines_description_for_seconds_only(ask: Ask) -> None:
    found = ask("machine", ONE, "slow nvmlInitWithFlags 30000")
    assert (found.names, found.gaps[0][1]) == ([], "NVML does not answer")
    assert found.took_s < 10


def test_env_names_the_gpus_or_why_there_are_none(ask: Ask) -> None:
    assert ask("env", *TWO).detail == "H100, H100"
    hidden = ask("env", *TWO, environment={"CUDA_VISIBLE_DEVICES": ""})
    assert (hidden.available, hidden.do) == (False, "unset CUDA_VISIBLE_DEVICES")
