"""AMD's GPUs are read through amdsmi: a fake of what its documentation says, no hardware."""

from __future__ import annotations

import sys
from enum import IntEnum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bottleneck_doctor.assemble.device import read_drivers
from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.instruments import Sample
from bottleneck_doctor.model.run import Gap
from bottleneck_doctor.sense import gpus
from bottleneck_doctor.sense.gpus import MOST_FAILURES, Gpus, list_gpu_names, load
from bottleneck_doctor.sense.nvml import Library
from tests.assemble.device_rows import SECOND, profile_of, train
from tests.sense.conftest import Plant

SERIAL, OTHER = "0x00A1B2C3D4E5F607", "0x1111111111111111"
TORCH = "30306131-6232-6333-6434-653566363037"  # torch's uuid of the first: the bytes of its digits
GIB = float(1 << 30)
MI300X = {
    "gpu_asic_info": {"market_name": "AMD Instinct MI300X", "asic_serial": SERIAL},
    "gpu_enumeration_info": {"hip_id": 0, "hip_uuid": "N/A"},
    "gpu_memory_total": 192 << 30,
    "power_cap_info": {"power_cap": 600_000_000, "default_power_cap": 750_000_000},
    "clock_info": {"clk": 1200, "max_clk": 2100},
    "power_info": {"current_socket_power": 590, "average_socket_power": "N/A"},
    "gpu_activity": {"gfx_activity": 87, "umc_activity": 20, "mm_activity": "N/A"},
    "violation_status": {"active_ppt_pwr": True, "active_socket_thrm": False, "active_hbm_thrm": "N/A"},
    "gpu_process_list": [
        {"pid": 7, "mem": 5 << 30, "memory_usage": {"vram_mem": 4 << 30}},
        {"pid": 8, "mem": 3 << 30, "memory_usage": {"vram_mem": 2 << 30}},
        {"pid": 9, "mem": 0, "memory_usage": {"vram_mem": 0}},
    ],
}
MI210 = {
    "gpu_asic_info": {"market_name": "N/A", "asic_serial": OTHER},
    "gpu_enumeration_info": {"hip_id": 1},
    "gpu_memory_total": 0xFFFFFFFFFFFFFFFF,
    "power_cap_info": {"power_cap": "N/A"},
    "clock_info": {"cur_clk": 1700, "max_clk": "N/A"},
    "power_info": {"current_socket_power": 0xFFFF, "average_socket_power": 300},
    "gpu_activity": {"gfx_activity": "N/A"},
    "gpu_process_list": ["a handle, as before ROCm 6.1"],
}
FIRST = {
    "gpu0_busy_share": 0.87, "gpu0_power_w": 590, "gpu0_sm_clock_mhz": 1200, "gpu0_power_limit_w": 600,
    "gpu0_clocks_power_cap": 1, "gpu0_clocks_hw_thermal": 0, "gpu0_job_processes": 1,
    "gpu0_foreign_processes": 1, "gpu0_foreign_memory_bytes": 2 * GIB,
}  # fmt: skip


class Fake(ModuleType):
    """``cards`` answer by the call's name without its prefix; a call without an answer raises."""

    AmdSmiClkType = IntEnum("AmdSmiClkType", {"SYS": 0, "GFX": 0})
    AmdSmiMemoryType = IntEnum("AmdSmiMemoryType", {"VRAM": 0})

    def __init__(self, *cards: dict[str, Any]) -> None:
        super().__init__("amdsmi")
        self.cards, self.ended = [dict(card) for card in cards], 0

    def amdsmi_init(self) -> None:
        if not self.cards:
            raise RuntimeError("Error code:\n\t34 | driver not loaded")

    def amdsmi_shut_down(self) -> None:
        self.ended += 1

    def __getattr__(self, name: str) -> Any:
        def call(card: dict[str, Any] | None = None, *_: Any) -> Any:
            found = self.cards if card is None else card.get(name.removeprefix("amdsmi_get_"))
            if found is None:
                raise RuntimeError("2 | not supported")
            return found

        return call


def library(*cards: dict[str, Any]) -> Library:
    return Library(Fake(*cards), "amdsmi", "amd-smi", "")


def near(found: Any) -> Any:
    return pytest.approx(dict(found))


def test_what_the_library_says_stands_under_the_names_of_nvmls_series() -> None:
    watched = Gpus(library(MI300X, MI210))
    assert watched.static() == near({
        "gpu0_whole_uuid": TORCH.replace("-", ""), "gpu0_memory_bytes": 192 * GIB,
        "gpu0_power_default_w": 750, "gpu0_sm_clock_max_mhz": 2100, "gpu1_whole_uuid": "31" * 16,
    })  # fmt: skip
    assert watched.read(frozenset({7})) == near({**FIRST, "gpu1_power_w": 300, "gpu1_sm_clock_mhz": 1700})
    assert "gpu0_power_limit_w" not in watched.read()  # asked rarely
    assert watched.gaps() == []
    drivers = read_drivers([Sample(0, "gpu_static", watched.static())], [])
    assert [drivers.find("cuda", uuid, 0) for uuid in (TORCH, "31" * 16, "32" * 16)] == [0, 1, None]


@pytest.mark.parametrize(
    ("call", "lost"),
    [
        ("gpu_asic_info", "whole_uuid"),
        ("gpu_memory_total", "memory_bytes"),
        ("power_cap_info", "power_default_w power_limit_w"),
        ("clock_info", "sm_clock_max_mhz sm_clock_mhz"),
        ("power_info", "power_w"),
        ("gpu_activity", "busy_share"),
        ("violation_status", "clocks_hw_thermal clocks_power_cap"),
        ("gpu_process_list", "foreign_memory_bytes foreign_processes job_processes"),
    ],
)
def test_a_call_that_fails_loses_only_its_own_values(call: str, lost: str) -> None:
    whole, watched = (
        Gpus(library({name: answer for name, answer in MI300X.items() if name != without}))
        for without in ("", call)
    )
    every, found = (one.static() | one.read(frozenset({7})) for one in (whole, watched))
    assert sorted(every.keys() - found.keys()) == [f"gpu0_{name}" for name in lost.split()]
    expected = [] if call == "violation_status" else [call.removeprefix("gpu_")]
    assert [gap.why.partition(": ")[2] for gap in watched.gaps()] == expected


def test_a_lost_device_is_named_and_the_other_is_still_read() -> None:
    known = library(MI300X, MI210)
    watched = Gpus(known)
    known.binding.cards[1].clear()
    for _ in range(MOST_FAILURES + 1):
        last = watched.read()
    assert "gpu0_busy_share" in last
    why = "AMD GPU (cuda:1) stopped answering amdsmi"
    assert Gap("gpu counters", why, "see `amd-smi` and `dmesg` for a lost GPU") in watched.gaps()
    watched.close()
    assert known.binding.ended == 1


@pytest.mark.parametrize(
    ("variables", "ids", "names"),
    [
        ({}, (1, 0), "b a"),  # HIP's order
        ({"ROCR_VISIBLE_DEVICES": "1,0", "HIP_VISIBLE_DEVICES": "1"}, (0, 1), "a"),
        ({"CUDA_VISIBLE_DEVICES": "1, 7"}, (0, 1), "b"),
        ({"HIP_VISIBLE_DEVICES": "GPU-00a1b2c3d4e5f607"}, (0, 1), "a b"),  # found by serial number
        ({"HIP_VISIBLE_DEVICES": "1"}, (None, None), "a b"),  # before ROCm 6.4
    ],
)
def test_variables_choose_devices(
    monkeypatch: pytest.MonkeyPatch, plant: Plant, variables: dict[str, str], ids: Any, names: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    cards = [
        MI300X | {"gpu_asic_info": {"market_name": name}, "gpu_enumeration_info": {"hip_id": place}}
        for name, place in zip("ab", ids, strict=True)
    ]
    monkeypatch.setattr(gpus, "load_nvml", lambda: Gap("gpu counters", "no NVML"))
    monkeypatch.setitem(sys.modules, "amdsmi", Fake(*cards))
    assert list_gpu_names(plant({"dev/kfd": ""})) == (names.split(), [])


def test_amdsmi_is_not_touched_without_its_driver_and_a_start_that_fails_is_a_gap(
    monkeypatch: pytest.MonkeyPatch, plant: Plant
) -> None:
    monkeypatch.setattr(gpus, "load_nvml", lambda: Gap("gpu counters", "no NVML"))
    monkeypatch.setitem(sys.modules, "amdsmi", Fake())
    assert load(plant({"dev/": ""})) == []
    (gap,) = list_gpu_names(plant({"dev/kfd": ""}))[1]
    assert gap.why.endswith("amdsmi does not start: Error code: 34 | driver not loaded")
    assert gap.do == "see `amd-smi` and `dmesg`"


def test_a_report_of_a_run_on_rocm_names_the_counters(tmp_path: Path) -> None:
    second = MI300X | {"gpu_enumeration_info": {"hip_id": 2}}  # which torch was given as its only one
    watched, job = Gpus(library(MI210, second)), frozenset({7})
    train(tmp_path, steps=600, name="AMD Instinct MI300X", uuid=TORCH, hip="6.2")
    samples = [Sample(SECOND, "gpu_static", watched.static())]
    samples += [Sample(SECOND * (2 + part) // 2, "gpu", watched.read(job)) for part in range(12)]
    report = write_up(profile_of(tmp_path, samples))
    busy = report.metrics["gpu_busy_fraction"]
    assert busy.value == pytest.approx(0.87)
    assert busy.source.startswith("GPU counters: ")
    assert report.device is not None
    clock = next(one for one in report.device.told if one.metric == "clock_share")
    assert (clock.value, clock.source) == (pytest.approx(1200 / 2100), "GPU counters, while busy")
    assert "gpu-hw-degraded" in {one.id for one in report.findings}  # capped at 600 of its 750 W
    assert "NVML" not in str(report)
