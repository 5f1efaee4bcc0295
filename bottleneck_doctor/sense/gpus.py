"""Reads the job's GPUs: how busy, full and fast they are, on which link, and who else computes there.

Every name begins with ``gpu0_`` for the first visible GPU (``cuda:0``) and so on. Per reading: busy_share
(time in which some kernel was there, however small, over the driver's last sample: 1/6 s to 1 s, by product),
memory_busy_share (the same of reads and writes), memory_used_bytes (of all processes), memory_bytes, power_w
(since Ampere, but for the A100, the mean of a second), sm_clock_mhz, memory_clock_mhz, temperature_c,
pcie_gen, pcie_width, clock_reasons (NVML's bits) and clocks_{idle,power_cap,...} as 0 or 1. Rarely:
power_limit_w, pcie_replays, {job,foreign}_processes, {job,foreign}_memory_bytes and {job,foreign}_busy_share
for processes inside and outside of the job's tree, and since Hopper, as means since the last time:
sm_active_share (multiprocessors with work), tensor_active_share (their time in tensor cores),
dram_bandwidth_share. Once: see ``static``; uuid is the slice's where the job has one, and whole_uuid then
that of its GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ..model.profile import Gap
from .activity import Activity
from .nvml import WHAT, Nvml, text_of
from .sharing import Sharing
from .visible import Gpu, visible_gpus

SLOW_EVERY = 10  # PCIe throughput alone blocks 20 ms per direction: the driver averages over that long
MOST_FAILURES = 5  # readings in a row in which a GPU answered nothing, after which it is given up

# NVML's enumerations, by value: the names differ between bindings.
CLOCK_REASONS = {
    "idle": 0x1,
    "applications": 0x2,
    "power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal": 0x20,
    "hw_thermal": 0x40,
    "power_brake": 0x80,
    "display": 0x100,
}
REASONS = "nvmlDeviceGetCurrentClocksEventReasons"
REASONS_BEFORE_2023 = "nvmlDeviceGetCurrentClocksThrottleReasons"
SM_CLOCK, MEMORY_CLOCK = 1, 2
TEMPERATURE_GPU = 0

Values = dict[str, float | str]


class Gpus:
    """The visible GPUs. Nothing here raises."""

    def __init__(self, binding: Any, environment: Mapping[str, str] | None = None) -> None:
        self._nvml = Nvml(binding)
        self._gpus, self._gaps = visible_gpus(binding, environment)
        self._failures = [0] * len(self._gpus)
        self._readings = 0
        self._activity = Activity(self._nvml, self._gpus)
        self._sharing = Sharing(self._nvml, self._gpus)

    def static(self) -> Values:
        """What does not change while a job runs: names, sizes, highest clocks, widest links, MIG."""
        return self._every(lambda _, gpu: self._static(gpu))

    def read(self, job: frozenset[int] = frozenset()) -> Values:
        """One reading of every GPU that still answers. ``job``: the pids that are not foreign."""
        slow = self._readings % SLOW_EVERY == 0
        self._readings += 1
        return self._every(lambda place, gpu: self._read(place, gpu, slow, job))

    def gaps(self) -> list[Gap]:
        """Calls and GPUs that did not answer."""
        return [*self._gaps, *self._nvml.gaps()]

    def close(self) -> None:
        """Lets NVML go."""
        self._activity.close()
        with suppress(Exception):
            self._nvml.binding.nvmlShutdown()

    def _every(self, read: Callable[[int, Gpu], Values]) -> Values:
        rows = enumerate(read(place, gpu) for place, gpu in enumerate(self._gpus))
        return {f"gpu{place}_{name}": value for place, row in rows for name, value in row.items()}

    def _read(self, place: int, gpu: Gpu, slow: bool, job: frozenset[int]) -> Values:
        if self._failures[place] >= MOST_FAILURES:
            return {}
        values = self._quick(gpu)
        self._failures[place] = 0 if values else self._failures[place] + 1
        if self._failures[place] == MOST_FAILURES:
            why = f"{gpu.name} (cuda:{place}) stopped answering NVML"
            self._gaps = [*self._gaps, Gap(WHAT, why, "see `nvidia-smi` and `dmesg` for a lost GPU")]
        return {**values, **self._slow(place, gpu, job)} if values and slow else values

    def _static(self, gpu: Gpu) -> Values:
        ask, handle, part = self._nvml.ask, gpu.handle, gpu.part
        mig = ask("nvmlDeviceGetMigMode", handle, expected=True)  # refused by all but data-centre GPUs
        capability = ask("nvmlDeviceGetCudaComputeCapability", handle)
        sliced = None if part is None else ask("nvmlDeviceGetAttributes", part)
        return _present(
            {
                "name": gpu.name,
                "nvml_index": gpu.index,
                "uuid": _mapped(text_of, ask("nvmlDeviceGetUUID", part or handle)),
                "whole_uuid": part and _mapped(text_of, ask("nvmlDeviceGetUUID", handle)),
                "compute_capability": capability and f"{capability[0]}.{capability[1]}",
                "mig": int(bool(mig and mig[0])),
                "mig_slices": getattr(sliced, "gpuInstanceSliceCount", None),
                "power_default_w": _scaled(
                    ask("nvmlDeviceGetPowerManagementDefaultLimit", handle, expected=True), 1 / 1000
                ),  # refused by laptops and slices
                "pcie_gen_max": ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
                "pcie_width_max": ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
                "sm_clock_max_mhz": ask("nvmlDeviceGetMaxClockInfo", handle, SM_CLOCK),
                "memory_clock_max_mhz": ask("nvmlDeviceGetMaxClockInfo", handle, MEMORY_CLOCK),
            }
        )

    def _quick(self, gpu: Gpu) -> Values:
        ask, handle = self._nvml.ask, gpu.handle
        # A GPU cut into slices has no utilisation of its own: silence there is expected.
        busy = ask("nvmlDeviceGetUtilizationRates", handle, expected=gpu.part is not None)
        memory = ask("nvmlDeviceGetMemoryInfo", gpu.part or handle)
        return _present(
            {
                "busy_share": _scaled(getattr(busy, "gpu", None), 1 / 100),
                "memory_busy_share": _scaled(getattr(busy, "memory", None), 1 / 100),
                "memory_used_bytes": getattr(memory, "used", None),
                "memory_bytes": getattr(memory, "total", None),
                "power_w": _scaled(ask("nvmlDeviceGetPowerUsage", handle), 1 / 1000),
                "sm_clock_mhz": ask("nvmlDeviceGetClockInfo", handle, SM_CLOCK),
                "memory_clock_mhz": ask("nvmlDeviceGetClockInfo", handle, MEMORY_CLOCK),
                "temperature_c": ask("nvmlDeviceGetTemperature", handle, TEMPERATURE_GPU),
                "pcie_gen": ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
                "pcie_width": ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
                **_clock_reasons(ask(REASONS, handle, older=REASONS_BEFORE_2023)),
            }
        )

    def _slow(self, place: int, gpu: Gpu, job: frozenset[int]) -> Values:
        ask, handle = self._nvml.ask, gpu.handle
        link = {
            "power_limit_w": _scaled(ask("nvmlDeviceGetEnforcedPowerLimit", handle), 1 / 1000),
            "pcie_replays": ask("nvmlDeviceGetPcieReplayCounter", handle),
        }
        return {
            **_present(link),
            **self._sharing.read(place, gpu, job),
            **self._activity.read(place, gpu),
        }


def _clock_reasons(bits: Any) -> dict[str, Any]:
    if not isinstance(bits, int):
        return {}
    named = {f"clocks_{name}": int(bool(bits & bit)) for name, bit in CLOCK_REASONS.items()}
    return {"clock_reasons": bits, **named}


def _present(found: Mapping[str, Any]) -> Values:
    return {name: value for name, value in found.items() if isinstance(value, (int, float, str))}


def _mapped(convert: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else convert(value)


def _scaled(value: Any, factor: float) -> float | None:
    return value * factor if isinstance(value, (int, float)) else None
