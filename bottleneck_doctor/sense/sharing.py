"""Tells apart who computes on a GPU: the job's processes, and strangers."""

from __future__ import annotations

from typing import Any

from .nvml import Nvml
from .visible import Gpu

Values = dict[str, float | str]


class Sharing:
    """The processes on each GPU, and how busy they kept it since they were asked for last."""

    def __init__(self, nvml: Nvml, gpus: list[Gpu]) -> None:
        self._nvml = nvml
        self._seen_us = [0] * len(gpus)
        for place, gpu in enumerate(gpus):
            self._busy(place, gpu)  # what the driver remembers of the time before the job

    def read(self, place: int, gpu: Gpu, job: frozenset[int]) -> Values:
        """Sums over the processes that compute there; ``job``: the pids that are not foreign.

        NVML speaks of the outermost namespace's pids: in a container our own may look foreign, or be hidden.
        """
        found = self._nvml.ask(
            "nvmlDeviceGetComputeRunningProcesses",
            gpu.part or gpu.handle,
            older="nvmlDeviceGetComputeRunningProcesses_v2",
        )
        if found is None:
            return {}
        percent = self._busy(place, gpu)
        values: Values = {}
        for owner in ("job", "foreign"):
            owned = [process for process in found if (process.pid in job) == (owner == "job")]
            values[f"{owner}_processes"] = len(owned)
            values[f"{owner}_memory_bytes"] = sum(process.usedGpuMemory or 0 for process in owned)
            if percent:
                values[f"{owner}_busy_share"] = sum(percent.get(process.pid, 0.0) for process in owned) / 100
        return values

    def _busy(self, place: int, gpu: Gpu) -> dict[int, float]:
        """Percent, per process: the mean of its new samples. The driver keeps old ones, and now and then
        says more than a hundred [Syllo/nvtop issue 110]."""
        seen_us = self._seen_us[place]
        # Refused also when merely nobody has computed lately, and for slices.
        answer: list[Any] = (
            self._nvml.ask("nvmlDeviceGetProcessUtilization", gpu.handle, seen_us, expected=True) or []
        )
        fresh = [one for one in answer if one.timeStamp > seen_us and one.smUtil <= 100]
        self._seen_us[place] = max([seen_us, *(one.timeStamp for one in fresh)])
        by_pid: dict[int, list[int]] = {}
        for one in fresh:
            by_pid.setdefault(one.pid, []).append(one.smUtil)
        return {pid: sum(shares) / len(shares) for pid, shares in by_pid.items()}
