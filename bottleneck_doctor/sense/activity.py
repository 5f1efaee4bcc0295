"""Reads how much of a GPU works, not merely whether some kernel is there: NVML's performance monitors.

Only Hopper and later have them. Unlike the counters of older devices they are not locked by whoever reads
them: profilers go on beside [NVIDIA/DCGM issue 62]. Not yet proven on hardware.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from typing import Any

from .nvml import Nvml
from .visible import Gpu

# NVML's metrics, by number; each is a mean, in percent, over the time between two samples.
METRICS = {"sm_active_share": 2, "tensor_active_share": 5, "dram_bandwidth_share": 10}

Values = dict[str, float | str]


@dataclass
class _Pair:
    """A GPU's sample of the last look, and room for the next one."""

    last: Any
    spare: Any
    taken: bool = False


class Activity:
    """The monitors of the GPUs that have some: each look covers all the time since the one before it."""

    def __init__(self, nvml: Nvml, gpus: list[Gpu]) -> None:
        self._nvml = nvml
        self._pairs = {place: pair for place, gpu in enumerate(gpus) if (pair := self._pair(gpu)) is not None}

    def read(self, place: int, gpu: Gpu) -> Values:
        """Shares of multiprocessors with work, of their time in tensor cores, of the memory's bandwidth."""
        pair = self._pairs.get(place)
        if pair is None or not self._sample(gpu, pair.spare):
            return {}
        values = self._compute(pair) if pair.taken else {}
        pair.last, pair.spare, pair.taken = pair.spare, pair.last, True
        return values

    def close(self) -> None:
        """Gives the samples back."""
        while self._pairs:
            _, pair = self._pairs.popitem()
            for sample in (pair.last, pair.spare):
                with suppress(Exception):
                    self._nvml.binding.nvmlGpmSampleFree(sample)

    def _pair(self, gpu: Gpu) -> _Pair | None:
        support = self._nvml.ask("nvmlGpmQueryDeviceSupport", gpu.handle, expected=True)
        if not getattr(support, "isSupportedDevice", 0):
            return None
        both = [self._nvml.ask("nvmlGpmSampleAlloc", expected=True) for _ in range(2)]
        return None if None in both else _Pair(*both)

    def _sample(self, gpu: Gpu, into: Any) -> bool:
        ask = self._nvml.ask
        if gpu.part is None:
            return ask("nvmlGpmSampleGet", gpu.handle, into, expected=True) is not None
        instance = ask("nvmlDeviceGetGpuInstanceId", gpu.part, expected=True)
        wanted = instance is not None
        return wanted and ask("nvmlGpmMigSampleGet", gpu.handle, instance, into, expected=True) is not None

    def _compute(self, pair: _Pair) -> Values:
        binding = self._nvml.binding
        wanted = binding.c_nvmlGpmMetricsGet_t()
        wanted.version, wanted.numMetrics = binding.NVML_GPM_METRICS_GET_VERSION, len(METRICS)
        wanted.sample1, wanted.sample2 = pair.last, pair.spare
        for place, number in enumerate(METRICS.values()):
            wanted.metrics[place].metricId = number
        if self._nvml.ask("nvmlGpmMetricsGet", wanted, expected=True) is None:
            return {}
        found = zip(METRICS, wanted.metrics, strict=False)
        return {name: one.value / 100 for name, one in found if not one.nvmlReturn and isfinite(one.value)}
