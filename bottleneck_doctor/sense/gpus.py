"""Reads the job's GPUs: utilisation, clocks, power, PCIe link, and other processes on them.

NVML and amdsmi ask the kernel, which may wait for a device: seconds to wake one, for ever when it has fallen
off the bus. Each reading is a short thread of its own; the supervisor's loop never waits for it, and collects
its result later. A thread that the kernel never returns to is abandoned.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

from ..model.instruments import Sample
from ..model.run import Gap
from .amd import AmdDevice, load_amdsmi, visible_amd
from .nvml import STARTS_WITHIN_S, WHAT, Gpu, Library, Values, load_nvml, present, visible_gpus
from .schedule import Track

NO_ANSWER = Gap(WHAT, "the driver does not answer", "see `nvidia-smi` or `amd-smi`, and `dmesg`")
Visible = Callable[[Library], tuple[list[Gpu], list[Gap]]]

SLOW_EVERY = 10  # readings: limits change seldom, and the monitors' means should span some seconds
MOST_FAILURES = 5  # readings in a row that brought nothing, after which a GPU, or all of them, is given up

# NVML's enumerations, by value: the names differ between bindings.
CLOCK_REASONS = {
    "idle": 0x1,
    "power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sw_thermal": 0x20,
    "hw_thermal": 0x40,
    "power_brake": 0x80,
}
REASONS = "nvmlDeviceGetCurrentClocksEventReasons"
REASONS_BEFORE_2023 = "nvmlDeviceGetCurrentClocksThrottleReasons"
PROCESSES = "nvmlDeviceGetComputeRunningProcesses"
SM_CLOCK = 1
# Of its monitors, in percent: multiprocessors with work, tensor cores at work, memory's bandwidth in use.
MONITORS = {"sm_active_share": 2, "tensor_active_share": 5, "dram_active_share": 10}


class Device:
    """One visible GPU, and what is remembered of it between readings."""

    def __init__(self, nvml: Library, gpu: Gpu) -> None:
        self.failures = 0
        self.gpu = gpu
        self._nvml = nvml
        self._seen_us = 0
        self._busy()  # drops the driver's samples from before the job
        support = nvml.ask("nvmlGpmQueryDeviceSupport", gpu.handle, expected=True)
        wanted = 2 if getattr(support, "isSupportedDevice", 0) else 0
        self._monitored = [nvml.ask("nvmlGpmSampleAlloc", expected=True) for _ in range(wanted)]
        self._has_sample = False  # in the first of both

    def static(self) -> Values:
        """What does not change while a job runs."""
        ask, handle, part = self._nvml.ask, self.gpu.handle, self.gpu.part
        memory = ask("nvmlDeviceGetMemoryInfo", part or handle)
        default_w = ask("nvmlDeviceGetPowerManagementDefaultLimit", handle, expected=True)
        return present({
            "uuid": ask("nvmlDeviceGetUUID", part or handle),
            "whole_uuid": part and ask("nvmlDeviceGetUUID", handle),
            "memory_bytes": getattr(memory, "total", None),
            "power_default_w": _scaled(default_w, 1 / 1000),  # refused by laptops and slices
            "pcie_gen_max": ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
            "pcie_width_max": ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
            "sm_clock_max_mhz": ask("nvmlDeviceGetMaxClockInfo", handle, SM_CLOCK),
        })  # fmt: skip

    def read(self, job: frozenset[int], slow: bool) -> Values:
        """One reading; ``slow``: also of what is asked rarely. Empty where nothing answers."""
        ask, handle = self._nvml.ask, self.gpu.handle
        # A GPU cut into slices has no utilisation of its own.
        busy = ask("nvmlDeviceGetUtilizationRates", handle, expected=self.gpu.part is not None)
        reasons = ask(REASONS, handle, older=REASONS_BEFORE_2023)
        named = CLOCK_REASONS if isinstance(reasons, int) else {}
        values = present({
            "busy_share": _scaled(getattr(busy, "gpu", None), 1 / 100),
            "power_w": _scaled(ask("nvmlDeviceGetPowerUsage", handle), 1 / 1000),
            "sm_clock_mhz": ask("nvmlDeviceGetClockInfo", handle, SM_CLOCK),
            "pcie_gen": ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
            "pcie_width": ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
            **{f"clocks_{name}": int(bool(reasons & bit)) for name, bit in named.items()},
        })  # fmt: skip
        if not values or not slow:
            return values
        limit = {"power_limit_w": _scaled(ask("nvmlDeviceGetEnforcedPowerLimit", handle), 1 / 1000)}
        return {**values, **present(limit), **self._shared(job), **self._active()}

    def close(self) -> None:
        """Gives the monitors' samples back."""
        for sample in self._monitored:
            with suppress(Exception):
                self._nvml.binding.nvmlGpmSampleFree(sample)
        self._monitored = []

    def _shared(self, job: frozenset[int]) -> Values:
        """The processes that compute there, those of the job and others.

        NVML speaks of the outermost namespace's pids: in a container our own may look foreign, or be hidden.
        """
        found = self._nvml.ask(PROCESSES, self.gpu.part or self.gpu.handle, older=f"{PROCESSES}_v2")
        if found is None:
            return {}
        percent = self._busy()
        values: Values = {}
        for owner in ("job", "foreign"):
            owned = [process for process in found if (process.pid in job) == (owner == "job")]
            values[f"{owner}_processes"] = len(owned)
            if percent:
                values[f"{owner}_busy_share"] = sum(percent.get(process.pid, 0.0) for process in owned) / 100
            if owner == "foreign":
                values["foreign_memory_bytes"] = sum(process.usedGpuMemory or 0 for process in owned)
        return values

    def _busy(self) -> dict[int, float]:
        """Percent, per process: the mean of its new samples. The driver keeps old ones, and now and then
        reports more than 100 % [Syllo/nvtop issue 110]."""
        # An error also when no process has computed lately, and for MIG slices.
        call = "nvmlDeviceGetProcessUtilization"
        answer = self._nvml.ask(call, self.gpu.handle, self._seen_us, expected=True) or []
        by_pid: dict[int, list[int]] = {}
        for one in answer:
            if one.timeStamp > self._seen_us and one.smUtil <= 100:
                by_pid.setdefault(one.pid, []).append(one.smUtil)
        self._seen_us = max([self._seen_us, *(one.timeStamp for one in answer if one.smUtil <= 100)])
        return {pid: sum(shares) / len(shares) for pid, shares in by_pid.items()}

    def _active(self) -> Values:
        """What the monitors say, means since the last call; from Hopper on."""
        if len(self._monitored) < 2 or None in self._monitored or not self._sample(self._monitored[1]):
            return {}
        last, now = self._monitored
        self._monitored = [now, last]
        if not self._has_sample:
            self._has_sample = True
            return {}
        binding = self._nvml.binding
        wanted = binding.c_nvmlGpmMetricsGet_t()
        wanted.version, wanted.numMetrics = binding.NVML_GPM_METRICS_GET_VERSION, len(MONITORS)
        wanted.sample1, wanted.sample2 = last, now
        for place, number in enumerate(MONITORS.values()):
            wanted.metrics[place].metricId = number
        if self._nvml.ask("nvmlGpmMetricsGet", wanted, expected=True) is None:
            return {}
        found = [(name, wanted.metrics[place]) for place, name in enumerate(MONITORS)]
        known = [(name, one) for name, one in found if not one.nvmlReturn and isfinite(one.value)]
        return {name: one.value / 100 for name, one in known}

    def _sample(self, into: Any) -> bool:
        ask, part = self._nvml.ask, self.gpu.part
        if part is None:
            return ask("nvmlGpmSampleGet", self.gpu.handle, into, expected=True) is not None
        instance = ask("nvmlDeviceGetGpuInstanceId", part, expected=True)
        if instance is None:
            return False
        return ask("nvmlGpmMigSampleGet", self.gpu.handle, instance, into, expected=True) is not None


def load(root: Path = Path("/")) -> Library | list[Gap]:
    """NVML, else amdsmi where AMD's driver is, else the gaps: none on a machine without an accelerator."""
    nvml = load_nvml()
    if not isinstance(nvml, Gap):
        return nvml
    if any((root / path).exists() for path in ("dev/nvidiactl", "dev/dxg")):
        return [nvml]
    if not (root / "dev/kfd").exists():  # the compute driver's: a container has it only if it was given
        return []
    amd = load_amdsmi()
    return [amd] if isinstance(amd, Gap) else amd


def list_gpu_names(root: Path = Path("/")) -> tuple[list[str], list[Gap]]:
    """Names of the visible GPUs, and what is missed. A driver that hangs is left after 3 s."""
    found: list[tuple[list[str], list[Gap]]] = []

    def ask() -> None:
        with suppress(Exception):
            library = load(root)
            if isinstance(library, list):
                found.append(([], library))
            else:
                gpus, gaps = VENDORS[library.name][0](library)
                found.append(([gpu.name for gpu in gpus], gaps + library.gaps()))

    try:
        thread = _start(ask)
    except RuntimeError as error:  # no more threads are allowed
        return [], [Gap(WHAT, str(error), "raise `ulimit -u`, or the container's limit of pids")]
    thread.join(STARTS_WITHIN_S)
    return found[0] if found else ([], [NO_ANSWER])


# By the library: which GPUs the job may use, how one is read, how the library is let go.
VENDORS: dict[str, tuple[Visible, type[Device] | type[AmdDevice], str]] = {
    "NVML": (visible_gpus, Device, "nvmlShutdown"),
    "amdsmi": (visible_amd, AmdDevice, "amdsmi_shut_down"),
}


class Gpus:
    """The visible GPUs. Nothing here raises."""

    def __init__(self, library: Library) -> None:
        self._library = library
        visible, kind, self._end = VENDORS[library.name]
        gpus, self._gaps = visible(library)
        self._devices = [kind(library, gpu) for gpu in gpus]
        self._readings = 0

    def static(self) -> Values:
        """What does not change while a job runs: sizes, highest clocks, widest links."""
        return _numbered([one.static() for one in self._devices])

    def read(self, job: frozenset[int] = frozenset()) -> Values:
        """One reading of every GPU that still answers. ``job``: the pids that are not foreign."""
        slow = self._readings % SLOW_EVERY == 0
        self._readings += 1
        rows: list[Values] = []
        for place, one in enumerate(self._devices):
            rows.append({} if one.failures >= MOST_FAILURES else one.read(job, slow))
            one.failures = 0 if rows[-1] else one.failures + 1
            if one.failures == MOST_FAILURES:
                why = f"{one.gpu.name} (cuda:{place}) stopped answering {self._library.name}"
                self._gaps = [*self._gaps, Gap(WHAT, why, f"{self._library.look} for a lost GPU")]
        return _numbered(rows)

    def gaps(self) -> list[Gap]:
        """Calls and GPUs that did not answer."""
        return [*self._gaps, *self._library.gaps()]

    def close(self) -> None:
        """Lets the library go."""
        for one in self._devices:
            if isinstance(one, Device):  # AMD's holds nothing
                one.close()
        with suppress(Exception):
            getattr(self._library.binding, self._end)()


def _numbered(rows: list[Values]) -> Values:
    return {f"gpu{place}_{name}": value for place, row in enumerate(rows) for name, value in row.items()}


def _scaled(value: Any, factor: float) -> float | None:
    return value * factor if isinstance(value, (int, float)) else None


HANGS_NS = int(8 * STARTS_WITHIN_S * 1e9)  # of one reading, on a node of eight GPUs
LOOK_AGAIN_NS = 50_000_000
PATIENCE_S = 1.0  # for a reading under way when the run ends


class GpuReader:
    """The GPUs of one job. ``look`` never blocks, and nothing here raises."""

    def __init__(self, now_ns: int) -> None:
        self._began_ns = self._asked_ns = now_ns
        self._track = Track(now_ns, roaming=True)  # steps may last as long as its period
        self._gpus: Gpus | None = None
        self._static: list[Sample] = []
        self._gaps: list[Gap] = []
        self._thread: threading.Thread | None = None
        self._found: list[Sample] = []
        self._cost_ns = 0
        self._failures = 0

    @property
    def next_ns(self) -> int | None:
        """When to look again; None when there is nothing to read."""
        if self._thread is not None:
            return self._asked_ns + LOOK_AGAIN_NS
        return None if self._failures >= MOST_FAILURES else self._track.next_ns

    def look(self, now_ns: int, job: frozenset[int]) -> None:
        """Collects a finished reading, and begins the next one when it is due."""
        self._take()
        self._asked_ns = now_ns
        if self._thread is None and self._failures < MOST_FAILURES and now_ns >= self._track.next_ns:
            self._due_ns = now_ns
            try:
                self._thread = _start(lambda: self._read(now_ns, job))
            except RuntimeError as error:  # no more threads are allowed
                self._failed(error)
                self._track.keep(now_ns, [], 0)

    def samples(self) -> list[Sample]:
        """What was read so far."""
        return self._static + self._track.samples()

    def gaps(self) -> list[Gap]:
        """What did not answer."""
        waited_ns = 0 if self._thread is None else self._asked_ns - self._due_ns
        hangs = [NO_ANSWER] if waited_ns > HANGS_NS else []
        return [*self._gaps, *(self._gpus.gaps() if self._gpus is not None else []), *hangs]

    def close(self) -> None:
        """Takes the last reading and lets the library go, unless it hangs."""
        hangs = NO_ANSWER in self.gaps()
        if self._thread is not None and not hangs:
            self._thread.join(PATIENCE_S)
        self._take()
        if self._gpus is not None and self._thread is None:
            with suppress(RuntimeError):  # no more threads are allowed
                _start(self._gpus.close).join(PATIENCE_S)

    def _take(self) -> None:
        if self._thread is None or self._thread.is_alive():
            return
        self._thread = None
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
            self._failed(error)
        self._cost_ns = time.thread_time_ns() - began_ns

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        gap = Gap("gpu sensor", f"{type(error).__name__}: {error}")
        self._gaps += [gap] if gap not in self._gaps else []

    def _open(self) -> None:
        loaded = load()
        if isinstance(loaded, list):
            self._gaps += loaded
            return
        gpus = Gpus(loaded)
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
