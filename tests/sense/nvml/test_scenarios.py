"""The real binding asks a library that speaks NVML: usual GPUs, troubles and slices."""

import statistics

import pytest

from bottleneck_doctor.sense.gpus import MOST_FAILURES
from bottleneck_doctor.sense.schedule import MOST_CORE_SHARE, PERIOD_NS
from tests.sense.nvml.conftest import ONE, Ask

THROTTLED = "busy=99 sm_clock=990 reasons=68 power=250000 limit=250000 default_limit=700000"
NARROW = "gen=3 gen_max=5 width=8 width_max=16"
TWO = ("gpu name=H100 uuid=GPU-aa busy=80 total=80e9", "gpu name=T4 uuid=GPU-bb busy=5 total=16e9")


def test_a_busy_gpu_and_what_does_not_change_of_it(ask: Ask) -> None:
    found = ask("gpus", f"{ONE} busy=97 {NARROW}", readings=2)
    first, second = found.readings
    assert first["gpu0_busy_share"] == 0.97
    assert (first["gpu0_power_w"], first["gpu0_power_limit_w"]) == (350.0, 700.0)
    assert first["gpu0_sm_clock_mhz"] == 1900
    assert (first["gpu0_pcie_gen"], first["gpu0_pcie_width"]) == (3, 8)
    assert (found.static["gpu0_pcie_gen_max"], found.static["gpu0_pcie_width_max"]) == (5, 16)
    assert (found.static["gpu0_uuid"], found.static["gpu0_memory_bytes"]) == ("GPU-aa", 80e9)
    assert found.static["gpu0_sm_clock_max_mhz"] == 1980
    assert "gpu0_power_limit_w" not in second, "it is asked rarely"
    assert first["gpu0_foreign_processes"] == first["gpu0_job_processes"] == 0
    assert "nvmlDeviceGetPcieThroughput" not in found.calls, "20 ms each"
    assert "nvmlGpmSampleGet" not in found.calls, "monitors are there from Hopper on"
    assert found.gaps == []


def test_heat_and_a_lowered_power_limit_are_named(ask: Ask) -> None:
    found = ask("gpus", f"{ONE} {THROTTLED}")
    (values,) = found.readings
    named = {name for name, value in values.items() if name.startswith("gpu0_clocks_") and value}
    assert named == {"gpu0_clocks_power_cap", "gpu0_clocks_hw_thermal"}
    assert values["gpu0_power_limit_w"] == 250.0
    assert found.static["gpu0_power_default_w"] == 700.0


def test_strangers_are_told_from_the_job_by_what_is_new(ask: Ask) -> None:
    """The driver also remembers how busy everybody was a minute ago."""
    found = ask(
        "gpus", ONE, "process pid=1000 memory=10e9 sm=60", "process pid=2000 memory=5e9 sm=30",
        readings=11, pause_s=0.12,
    )  # fmt: skip
    assert found.readings[0]["gpu0_foreign_processes"] == 1
    last = found.readings[-1]
    assert (last["gpu0_job_processes"], last["gpu0_foreign_memory_bytes"]) == (1, 5e9)
    assert (last["gpu0_job_busy_share"], last["gpu0_foreign_busy_share"]) == (0.6, 0.3)
    assert found.gaps == []


def test_two_unlike_gpus_are_numbered_as_asked(ask: Ask) -> None:
    """CUDA numbers them by speed and NVML by slot: without an order in common all are read."""
    environment = {"CUDA_VISIBLE_DEVICES": "1"}
    assert ask("gpus", *TWO, environment=environment).static.keys() >= {"gpu0_uuid", "gpu1_uuid"}
    chosen = ask("gpus", *TWO, environment={**environment, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert (chosen.static["gpu0_uuid"], chosen.readings[0]["gpu0_busy_share"]) == ("GPU-bb", 0.05)
    assert "gpu1_uuid" not in chosen.static
    assert chosen.gaps == []


@pytest.mark.parametrize(
    ("wanted", "uuids"), [(" 1 ", ["MIG-b1"]), ("", []), ("0,9,2", ["GPU-aa1"]), ("GPU-", [])]
)
def test_the_variable_is_read_as_cuda_reads_it(ask: Ask, wanted: str, uuids: list[str]) -> None:
    lines = "gpu name=H100 uuid=GPU-aa1", "gpu name=H100 uuid=GPU-bb1", "part name=H100 uuid=MIG-b1"
    found = ask("gpus", *lines, "gpu name=H100 uuid=GPU-cc1", environment={"CUDA_VISIBLE_DEVICES": wanted})
    assert [
        value for name, value in found.static.items() if name.endswith("_uuid") and "whole" not in name
    ] == uuids


def test_hopper_says_how_much_of_it_works_since_the_last_time(ask: Ask) -> None:
    found = ask("gpus", f"{ONE} gpm=1 sm=40 dram=25", readings=11, pause_s=0.02)
    assert "gpu0_sm_active_share" not in found.readings[0]
    last = {name: value for name, value in found.readings[-1].items() if name.endswith("_active_share")}
    assert last == {"gpu0_sm_active_share": 0.4, "gpu0_dram_active_share": 0.25}
    assert found.calls["samples left"] == 0
    assert found.gaps == []


def test_eight_gpus_cost_far_less_than_the_hundredth_of_a_core_that_watching_may_cost(ask: Ask) -> None:
    """Of a driver that answers at once: what is left is the binding and us."""
    found = ask("gpus", *[f"gpu name=H100 uuid=GPU-{number} gpm=1 sm=40" for number in range(8)], readings=41)
    assert len([name for name in found.readings[-1] if name.endswith("_sm_clock_mhz")]) == 8
    assert statistics.mean(found.cpu_s[1:]) < 0.5 * MOST_CORE_SHARE * PERIOD_NS / 1e9


TWO_TROUBLES = (ONE, "gpu name=H100 uuid=GPU-bb")


@pytest.mark.parametrize(
    ("code", "why", "do"), [(4, "Insufficient Permissions", "run bdoc as"), (999, "Unknown Error", "update")]
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


def test_a_gpu_lost_midway_is_given_up_and_the_other_read_on(ask: Ask) -> None:
    found = ask("gpus", *TWO_TROUBLES, "fail * 15 6 1", readings=MOST_FAILURES + 8)
    assert "gpu1_busy_share" in found.readings[0]
    last = {name.partition("_")[0] for name in found.readings[-1]}
    assert last == {"gpu0"}
    assert ["gpu counters", "H100 (cuda:1) stopped answering NVML"] in [gap[:2] for gap in found.gaps]
    assert "GPU is lost" in " ".join(gap[1] for gap in found.gaps)


def test_a_driver_of_2021_is_asked_by_the_names_it_knows(ask: Ask) -> None:
    found = ask("gpus", *(f"{ONE} reasons=4", "process pid=1000 memory=10e9"), library="old")
    assert found.readings[0]["gpu0_clocks_power_cap"] == 1
    assert found.readings[0]["gpu0_job_processes"] == 1
    assert found.gaps == []


@pytest.mark.parametrize(
    ("code", "why", "do"),
    [(9, "Driver Not Loaded", "load the driver"), (18, "version mismatch", "driver and library differ")],
)
def test_a_driver_that_does_not_start_names_what_to_do(ask: Ask, code: int, why: str, do: str) -> None:
    (gap,) = ask("gpus", f"init {code}").gaps
    assert gap[1].startswith("NVML does not start: ")
    assert why in gap[1]
    assert gap[2].startswith(do)


def test_a_slow_call_delays_no_tick_and_is_not_made_again(ask: Ask) -> None:
    found = ask("sensors", ONE, "slow nvmlDeviceGetPowerUsage 1500", seconds=5)
    assert found.slowest_tick_s < 1
    assert len(found.readings) >= 2
    assert "gpu0_power_w" not in found.readings[-1]
    assert [gap[1] for gap in found.gaps] == ["took 1.5 s to answer, and is not asked again: PowerUsage"]


def test_a_driver_that_hangs_holds_up_neither_ticks_nor_the_end(ask: Ask) -> None:
    """The process itself must be able to end as well: its exit status is looked at."""
    found = ask("sensors", ONE, "slow nvmlInitWithFlags 30000", seconds=1)
    assert found.slowest_tick_s < 1
    assert found.closing_s < 3
    assert found.readings == []


def test_env_names_the_gpus_or_why_there_are_none(ask: Ask) -> None:
    assert ask("env", *TWO_TROUBLES).detail == "H100, H100"
    hidden = ask("env", *TWO_TROUBLES, environment={"CUDA_VISIBLE_DEVICES": ""})
    assert (hidden.available, hidden.do) == (False, "where there is one: unset CUDA_VISIBLE_DEVICES")


CUT = (
    "gpu name=A100 uuid=GPU-aa used=30e9 gpm=1",
    "part name=A100-3g uuid=MIG-one instance=1 used=1e9 total=20e9 sm=10",
    "process pid=1000 memory=1e9",
    "part name=A100-4g uuid=MIG-two instance=2 used=2e9 total=40e9 sm=20",
    "process pid=2000 memory=2e9",
)


@pytest.mark.parametrize(("wanted", "uuid"), [(None, "MIG-one"), ("MIG-two", "MIG-two")])
def test_the_slice_that_cuda_would_use_is_read(ask: Ask, wanted: str | None, uuid: str) -> None:
    environment = {} if wanted is None else {"CUDA_VISIBLE_DEVICES": wanted}
    found = ask("gpus", *CUT, environment=environment, readings=11, pause_s=0.02)
    assert (found.static["gpu0_uuid"], found.static["gpu0_whole_uuid"]) == (uuid, "GPU-aa")
    own, last = uuid == "MIG-one", found.readings[-1]
    assert found.static["gpu0_memory_bytes"] == (20e9 if own else 40e9)
    assert (last["gpu0_job_processes"], last["gpu0_foreign_processes"]) == ((1, 0) if own else (0, 1))
    assert last["gpu0_sm_active_share"] == (0.1 if own else 0.2)
    assert "gpu0_busy_share" not in last  # NVML has none of a GPU that is cut up
    assert found.gaps == []
