"""Whatever a profile claims of an accelerator, the report is written: no finding fails on odd numbers."""

import random
from typing import Any

import pytest

from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.codec import encode_profile, encode_report
from bottleneck_doctor.model.device import (
    Allocator,
    DeviceCopy,
    DeviceFacts,
    DeviceSync,
    Kernels,
    Product,
    TorchSettings,
)
from tests.analyse.devices import device_run

LARGEST = 2**62
KINDS = ("matmul", "convolution", "elementwise", "reduction", "other")
PRECISIONS = ("", "float32", "tf32", "bfloat16")
READINGS = (
    "busy_share sm_clock_mhz sm_clock_max_mhz clocks_hw_thermal clocks_power_cap clocks_idle power_limit_w "
    "power_default_w power_w job_processes foreign_processes job_busy_share foreign_busy_share "
    "foreign_memory_bytes memory_bytes pcie_gen pcie_width pcie_gen_max pcie_width_max"
).split()
BEAT = "launch_s sync_s transfer_s memory_s collective_s other_s host_s".split()


@pytest.mark.parametrize("seed", range(8))
def test_odd_facts_make_no_report_fail(seed: int) -> None:
    chance = random.Random(seed)
    beat = {name: 0.02 * chance.random() for name in BEAT if chance.random() < 0.7}
    beat["busy_s"] = chance.choice([0.0, 1e-3, 0.02])
    nvml = {
        name: chance.choice([0.0, 0.5, 16.0, float(LARGEST)]) for name in READINGS if chance.random() < 0.7
    }
    profile = device_run(odd_facts(chance), nvml, host_s=beat.pop("host_s", 0.0) + 1e-3, **beat)
    assert encode_profile(profile)
    assert encode_report(write_up(profile))


def odd_facts(chance: random.Random) -> DeviceFacts:
    """Facts with zeros, contradictions and the largest numbers that a profile may hold."""

    def odd(scale: float = 0.01) -> float:
        return chance.choice([0.0, scale * chance.random(), 10 * scale * chance.random(), float(LARGEST)])

    def size() -> int:
        return chance.choice([0, 1, 7, 64, 50257, LARGEST])

    def some(*made: Any) -> list[Any] | None:
        return list(made) if chance.random() < 0.8 else None

    kernels = [
        Kernels(chance.choice(KINDS), odd(), odd(9.0), odd(), chance.choice(PRECISIONS)) for _ in "abc"
    ]
    products = [Product(size(), size(), size(), chance.choice(PRECISIONS), odd(), odd()) for _ in "ab"]
    return DeviceFacts(
        capability=chance.choice([None, (0, 0), (7, 5), (9, 0)]),
        memory_bytes=chance.choice([None, 0, 2**34]),
        copies=some(DeviceCopy(odd(1e9), odd(), odd(), odd(), False, chance.random() < 0.5, "float32")),
        syncs=some(DeviceSync("item", odd(), odd(), odd(), "train.py", 3)),
        kernels=some(*kernels),
        products=some(*products),
        allocator=chance.choice([None, Allocator(size(), size(), size(), size(), size(), size())]),
        switches=chance.choice([None, TorchSettings(), TorchSettings("highest", None, False, True, odd())]),
        sm_active_share=chance.choice([None, odd()]),
        recompute_s=chance.choice([None, odd()]),
    )
