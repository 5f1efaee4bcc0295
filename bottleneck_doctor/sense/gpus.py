"""Reads the job's GPUs: models, utilisation, memory, clocks, PCIe link, and other processes on them.

NVML asks the kernel, which may wait for a device: seconds to wake one, for ever when it has fallen off the
bus. Each reading is a short thread of its own; the supervisor's loop never waits for it, and collects its
result later. A thread that the kernel never returns to is abandoned.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from typing import Any

from ..model.instruments import Sample
from ..model.run import Gap
from .nvml import NO_ANSWER, WHAT, Gpu, Nvml, load_nvml, missed, text_of, visible_gpus
from .schedule import Track

Values = dict[str, float | str]


class Sharing:
    """The processes on each GPU, and how busy they kept it since they were asked for last."""

    def __init__(self, nvml: Nvml, gpus: list[Gpu]) -> None:
        self._nvml = nvml
        self._seen_us = [0] * len(gpus)
        for place, gpu in enumerate(gpus):
            self._busy(place, gpu)  # drops the driver's samples from before the job

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
        reports more than 100 % [Syllo/nvtop issue 110]."""
        seen_us = self._seen_us[place]
        # An error also when no process has computed lately, and for MIG slices.
        answer: list[Any] = (
            self._nvml.ask("nvmlDeviceGetProcessUtilization", gpu.handle, seen_us, expected=True) or []
        )
        fresh = [one for one in answer if one.timeStamp > seen_us and one.smUtil <= 100]
        self._seen_us[place] = max([seen_us, *(one.timeStamp for one in fresh)])
        by_pid: dict[int, list[int]] = {}
        for one in fresh:
            by_pid.setdefault(one.pid, []).append(one.smUtil)
        return {pid: sum(shares) / len(shares) for pid, shares in by_pid.items()}


SLOW_EVERY = 10  # PCIe throughput alone blocks 20 ms per direction: the driver averages over that long
MOST_FAILURES = 5  # readings in a row that brought nothing, after which a GPU, or all of them, is given up

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
        return {**_present(link), **self._sharing.read(place, gpu, job), **self._activity.read(place, gpu)}


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


# NVML's metrics, by number; each is a mean, in percent, over the time between two samples.
METRICS = {"sm_active_share": 2, "tensor_active_share": 5, "dram_bandwidth_share": 10}


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


HANGS_NS = 10_000_000_000  # of one reading, after which the driver is reported to hang (chosen)
LOOK_AGAIN_NS = 50_000_000
PATIENCE_S = 1.0  # for a reading under way when the run ends


class GpuReader:
    """The GPUs of one job. ``look`` never blocks, and nothing here raises."""

    def __init__(self, now_ns: int, nvml: Any = None, environment: Mapping[str, str] | None = None) -> None:
        self._nvml, self._environment = nvml, environment
        self._began_ns = self._asked_ns = now_ns
        self._track = Track(now_ns, roaming=True)  # steps may last as long as its period
        self._gpus: Gpus | None = None
        self._static: list[Sample] = []
        self._gaps: list[Gap] = []
        self._thread: threading.Thread | None = None
        self._found: list[Sample] = []
        self._cost_ns = 0
        self._failures = 0
        self.cpu_ns = 0

    @property
    def next_ns(self) -> int | None:
        """When to look again; None when there is nothing to read."""
        if self._thread is not None:
            return self._asked_ns + LOOK_AGAIN_NS
        return None if self._is_over() else self._track.next_ns

    def look(self, now_ns: int, job: frozenset[int]) -> None:
        """Collects a finished reading, and begins the next one when it is due."""
        self._take()
        self._asked_ns = now_ns
        if self._thread is None and not self._is_over() and self._track.is_due(now_ns):
            self._due_ns = now_ns
            self._thread = _start(lambda: self._read(now_ns, job))

    def samples(self) -> list[Sample]:
        """What was read so far."""
        return self._static + self._track.samples()

    def gaps(self) -> list[Gap]:
        """What did not answer."""
        waited_ns = 0 if self._thread is None else self._asked_ns - self._due_ns
        hangs = [NO_ANSWER] if waited_ns > HANGS_NS else []
        return [*self._gaps, *(self._gpus.gaps() if self._gpus is not None else []), *hangs]

    def close(self) -> None:
        """Takes the last reading and lets NVML go, unless it hangs."""
        hangs = NO_ANSWER in self.gaps()
        if self._thread is not None and not hangs:
            self._thread.join(PATIENCE_S)
        self._take()
        if self._gpus is not None and self._thread is None:
            _start(self._gpus.close).join(PATIENCE_S)

    def _is_over(self) -> bool:
        return self._failures >= MOST_FAILURES

    def _take(self) -> None:
        if self._thread is None or self._thread.is_alive():
            return
        self._thread = None
        self.cpu_ns += self._cost_ns
        self._track.keep(self._due_ns, self._found, self._cost_ns)

    def _read(self, now_ns: int, job: frozenset[int]) -> None:
        """In a thread of its own; its results are not read until it has ended."""
        began_ns = time.thread_time_ns()
        self._found = []
        try:
            if self._gpus is None:
                self._open()
            if self._gpus is not None and (values := self._gpus.read(job)):
                self._found = [Sample(now_ns, "gpu", values)]
            self._failures = MOST_FAILURES if self._gpus is None else 0
        except Exception as error:  # our bug or a binding's oddity: the job must not notice either
            self._failures += 1
            gap = Gap("gpu sensor", f"{type(error).__name__}: {error}")
            self._gaps += [gap] if gap not in self._gaps else []
        self._cost_ns = time.thread_time_ns() - began_ns

    def _open(self) -> None:
        loaded = load_nvml() if self._nvml is None else self._nvml
        if isinstance(loaded, Gap):
            self._gaps += missed(loaded)
            return
        gpus = Gpus(loaded, self._environment)
        static = gpus.static()
        self._static = [Sample(self._began_ns, "gpu_static", static)] if static else []
        self._gpus = gpus


def _start(work: Callable[[], None]) -> threading.Thread:
    """It is born with every signal blocked: those of the run are for the thread that passes them on."""
    thread = threading.Thread(target=work, name="bdoc gpus", daemon=True)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return thread
