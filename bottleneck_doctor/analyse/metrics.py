"""The metrics of the report, each with its interval, sample count and source."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import NamedTuple

from ..model.device import Convolution, DeviceFacts, DeviceView, Product
from ..model.diagnosis import Diagnosis, HostLoad, Step
from ..model.profile import Profile
from ..model.report import DeviceSummary, Evidence, Metric
from ..model.run import Process
from .device import NAMES, clock_loss, held_down, other_views
from .predict import side_gains
from .ranks import on_devices
from .shares import ALL_BUT_NOISE, NEARLY_ALL, NOTICED
from .steps import mean_interval, share_in, share_interval, steps_in
from .whole_run import evaluation_share, life_of

UNSEEN = "no training step was seen"


def environment(profile: Profile) -> dict[str, str | float | None]:
    """Names and plain values, in the order of reading; None where unknown."""
    machine = profile.machine
    trainers = [process for process in profile.processes if process.role == "trainer"]
    trainer = trainers[0] if trainers else Process(0, 0, "trainer", 0.0)
    keys = [loop.loader for loop in profile.loops if loop.role == "train"][:1]
    loader = next((one for one in profile.loaders if one.key in keys), None)
    return {
        "python": trainer.python or None,
        "torch": trainer.torch,
        "device": trainer.device,
        "torch_threads": trainer.torch_threads,
        "trainers": len(trainers),
        "world_size": trainer.world_size,
        "cores": machine.cores,
        "cores_online": machine.cores_online,
        "affinity_cores": machine.affinity_cores,
        "quota_cores": machine.quota_cores,
        "cpu": machine.cpu or None,
        "gpus": ", ".join(machine.gpus) or None,
        "memory_bytes": machine.memory_bytes,
        "memory_limit_bytes": machine.memory_limit_bytes,
        "shm_free_bytes": machine.shm_free_bytes,
        "num_workers": loader.num_workers if loader else None,
        "start_method": loader.start_method if loader else None,
        "kernel": machine.kernel or None,
        "bdoc": profile.run.bdoc or None,
    }


def data_wait(steps: list[Step], loose: tuple[float, float] | None = None) -> Metric:
    """The share of the steps' time in which the loop waits for data; ``loose`` are the ends of its interval
    where stack samples say which part of a step gets the batch. Releasing the last batch is a metric of its
    own: no gate shall depend on whether stacks were sampled."""
    if not steps:
        return Metric(None, "share", source=UNSEEN)
    steps = [replace(one, wait=one.wait - one.freed) for one in steps]
    share, low, high = share_interval(steps, "wait")
    source = "hook on the loader's next"
    if loose is not None:
        low, high, source = min(loose[0], share), max(loose[1], share), "optimizer step to next forward pass"
    return Metric(share, "share", low, high, steps_in(steps), source)


def measure(main: Diagnosis, loose: tuple[float, float] | None = None) -> dict[str, Metric]:
    """All metrics of the contract, of the verdict's steps; ``value`` is None where nothing was measured."""
    steps, inputs, loader, device = main.steps, main.inputs, main.loader, main.device
    wait, step = data_wait(steps, loose), Metric(None, "s", source=UNSEEN)
    if steps:
        times = mean_interval([one.wall for one in steps], [float(one.steps) for one in steps])
        step = Metric(times[0], "s", times[1], times[2], steps_in(steps), "time between batches")
    per_batch = inputs.samples or (loader.batch_size if loader is not None else None)
    trained = main.whole.training_s + main.whole.evaluation_s > 0
    evaluating = evaluation_share(main.whole) if trained else None
    saving = share_in(steps, "checkpoint") if steps else None
    return {
        "data_wait_fraction": wait,
        "exposed_data_wait_fraction": exposed_wait(device) if device is not None else wait,
        **({"batch_release_fraction": released(steps)} if any(one.freed for one in steps) else {}),
        "step_time_s": step,
        "steps_per_s": _per_s(step, 1.0),
        "samples_per_s": _per_s(step, float(per_batch))
        if per_batch
        else Metric(None, "1/s", source="batch size unknown"),
        "cpu_busy_fraction": cpu_busy(main.host),
        "iowait_fraction": Metric(main.host.iowait, "share", source="/proc/stat; corroborates only"),
        "gpu_busy_fraction": gpu_busy(device),
        "gpu_memory_fraction": gpu_memory(device),
        **({"mfu": utilisation(device), "cores_per_gpu": cores_needed(main)} if device is not None else {}),
        "worker_busy_fraction": Metric(inputs.busy, "share", n=inputs.batches, source="time inside fetches"),
        "startup_s": _startup(main),
        "evaluation_fraction": Metric(evaluating, "share", source="loops without backward passes"),
        "checkpoint_fraction": Metric(saving, "share", source="torch.save and its like"),
    }


def released(steps: list[Step]) -> Metric:
    """The share of the steps' time in which the line that asks for a batch releases the last one."""
    value, low, high = share_interval(steps, "freed")
    source = "stack samples of the loop's line, behind the hook on the loader's next"
    return Metric(value, "share", low, high, steps_in(steps), source)


def cpu_busy(host: HostLoad) -> Metric:
    """The share of the allowed cores that the job keeps busy."""
    busy = None if host.job_cores is None else min(1.0, host.job_cores / host.cores)
    return Metric(busy, "share", source="CPU seconds of the process tree over cores allowed")


def cores_needed(main: Diagnosis) -> Metric:
    """The CPU that a step's batch takes to make, over the step as it would be without any wait for it."""
    inputs, scenario = main.inputs, main.scenario
    if not inputs.batches or scenario is None or main.step_s <= 0:
        return Metric(None, "cores", source="no fetch was timed")
    without = main.step_s / max(1.0, side_gains(scenario)["input"])
    needed = (inputs.cpu + inputs.other_cpu) / without
    return Metric(needed, "cores", n=inputs.batches, source="CPU of a batch over the step without data wait")


def _per_s(step: Metric, times: float) -> Metric:
    if not step.value or not step.low or not step.high:
        return Metric(None, "1/s", source=step.source)
    return Metric(times / step.value, "1/s", times / step.high, times / step.low, step.n, step.source)


def _startup(main: Diagnosis) -> Metric:
    """From the run's start to the first batch in the training loop; by its process's life where no loader
    tells of batches."""
    loop = main.loop
    life = life_of(main.profile, loop) if loop is not None and not loop.loader else None
    if life is not None:
        return Metric(life.first_s, "s", n=1, source="run start to first step")
    if loop is None or not loop.epochs.t:
        return Metric(None, "s", source="no training loop was seen")
    first = loop.epochs.t[0] + loop.epochs.build_s[0] + loop.epochs.first_wait_s[0]
    return Metric(max(0.0, first), "s", n=1, source="run start to first batch")


# Dense operations a second, in 10^12, by the device name in torch, from the vendors' data sheets (sparse
# figures halved; of GeForce from the whitepapers on GA102, Ada and RTX Blackwell, with sums in float32).
# Cards of the same chip with less power (laptops) have lower peaks, and MIG instances lower ones still.
PEAKS: dict[str, dict[str, float]] = {
    r"NVIDIA GB200": {"float32": 80, "tf32": 1250, "float16": 2500, "float8": 5000},
    r"NVIDIA B200": {"float32": 75, "tf32": 1100, "float16": 2250, "float8": 4500},
    r"NVIDIA (H200|H100 80GB HBM3|GH200 \S+)": {"float32": 67, "tf32": 494, "float16": 989, "float8": 1979},
    r"NVIDIA H100 NVL": {"float32": 60, "tf32": 417, "float16": 835, "float8": 1671},
    r"NVIDIA H100 PCIe": {"float32": 51, "tf32": 378, "float16": 756, "float8": 1513},
    r"NVIDIA A100-\S+": {"float32": 19.5, "tf32": 156, "float16": 312},
    r"NVIDIA L40S": {"float32": 91.6, "tf32": 183, "float16": 362, "float8": 733},
    r"NVIDIA A10": {"float32": 31.2, "tf32": 62.5, "float16": 125},
    r"NVIDIA L4": {"float32": 30, "tf32": 60, "float16": 121},
    r"Tesla T4": {"float32": 8.1, "float16": 65},
    r"Tesla V100-SXM\S+": {"float32": 15.7, "float16": 125},
    r"NVIDIA GeForce RTX 5090": {"float32": 104.8, "tf32": 104.8, "float16": 209.5, "float8": 419},
    r"NVIDIA GeForce RTX 5080": {"float32": 56.3, "tf32": 56.3, "float16": 112.6, "float8": 225.1},
    r"NVIDIA GeForce RTX 4090": {"float32": 82.6, "tf32": 82.6, "float16": 165.2, "float8": 330.3},
    r"NVIDIA GeForce RTX 4080": {"float32": 48.7, "tf32": 48.7, "float16": 97.5, "float8": 194.9},
    r"NVIDIA GeForce RTX 3090": {"float32": 35.6, "tf32": 35.6, "float16": 71},
    r"AMD Instinct MI3(00|25)X.*": {"float32": 163.4, "tf32": 653.7, "float16": 1307.4, "float8": 2614.9},
    r"AMD Instinct MI250X.*": {"float32": 47.9, "float16": 191.5},  # of one of its two dies
}
ARITHMETIC = {"matmul", "convolution", "attention"}
UNKNOWN = "needs a profiler's window with the shapes of products, and a device whose peak is known"
TIGHT = 1.25  # times the lower end; where more may be hidden no single value is named (chosen)


def utilisation(device: DeviceView | None) -> Metric:
    """MFU: what a step's products and convolutions would take at the device's peak, over what it takes."""
    beat, facts = (device.beat, device.facts) if device is not None else (None, DeviceFacts())
    peak = peak_of(facts)
    if beat is None or beat.wall_s <= 0 or peak is None or facts.kernels is None:
        return Metric(None, "share", source=UNKNOWN)
    counted: list[Product | Convolution] = [*(facts.products or []), *(facts.convolutions or [])]
    peaks = [(one, peak.get("float16" if one.precision == "bfloat16" else one.precision)) for one in counted]
    known = [(one, best * 1e12) for one, best in peaks if best is not None]
    took = sum(one.device_s for one, _ in known)
    if took <= 0:
        return Metric(None, "share", source=UNKNOWN)
    low = sum(operations(one) / best for one, best in known) / beat.wall_s
    if low > 1:  # that peak, or that precision, is not the device's
        return Metric(None, "share", source=UNKNOWN)
    rest = sum(one.device_s for one in facts.kernels if one.kind in ARITHMETIC) - took
    uncounted = max(0.0, rest) / beat.wall_s
    high = min(1.0, low + uncounted)
    source = "shapes of products and convolutions, over the device's peak in their precision"
    if uncounted > 0:
        source += f"; {uncounted:.0%} of the step is arithmetic that could not be counted"
    return Metric(low if high <= TIGHT * low else None, "share", low, high, beat.steps, source)


def peak_of(facts: DeviceFacts) -> dict[str, float] | None:
    """The device's peak by precision; None for one that is not listed."""
    return next((peak for model, peak in PEAKS.items() if re.fullmatch(model, facts.name)), None)


def operations(one: Product | Convolution) -> float:
    """Floating-point operations of all calls of that shape in a step."""
    if isinstance(one, Product):
        return 2.0 * one.m * one.n * one.k * one.calls
    places = zip(one.input[2:], one.weight[2:], one.stride, one.padding, one.dilation, strict=False)
    out = [
        (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel, stride, padding, dilation in places
    ]
    once = 2.0 * one.input[0] * one.weight[0] * prod(out) * prod(one.weight[1:])
    return (2 if one.backward else 1) * once * one.calls


WINDOW, COUNTERS = "torch.profiler window", "GPU counters, while busy"
HELD = {
    "power_cap": "a power limit below the card's own", "hw_slowdown": "a hardware slowdown",
    "sw_thermal": "heat (driver)", "hw_thermal": "heat (board)", "power_brake": "the power supply's brake",
}  # fmt: skip

RANKS_AT_MOST = 8  # in one line
PAUSES = {
    "input_s": "its wait for batches", "launch_s": "its wait for launches",
    "sync_s": "its pauses after readbacks", "transfer_s": "its wait for copies",
    "memory_s": "its wait for the allocator", "collective_s": "its wait for other ranks",
    "other_s": "its pauses while the loop saves or logs",
    "unexplained_s": "its wait for something that the trace does not hold",
}  # fmt: skip


def summarise(diagnosis: Diagnosis) -> DeviceSummary | None:
    """The device's name and what was measured of it; None where none was used."""
    view = diagnosis.device
    if view is None:
        return None
    name = view.facts.name or NAMES.get(view.facts.kind, f"accelerator ({view.facts.kind or 'unknown'})")
    told = [*_evidence(view, diagnosis.metrics), *_by_rank(diagnosis)]
    return DeviceSummary(name, view.facts.kind, told, _look_first(view))


def _evidence(view: DeviceView, metrics: dict[str, Metric]) -> Iterator[Evidence]:
    """Number after number; one without a value says by its source why."""
    facts, driver, window = view.facts, view.driver, view.facts.window
    busy, mfu = metrics.get("gpu_busy_fraction"), metrics.get("mfu")
    if busy is not None and busy.value is not None:
        yield Evidence("busy", "gpu_busy_fraction", busy.value, busy.source)
    if mfu is not None and mfu.low is not None:
        yield Evidence("MFU" if mfu.value is not None else "MFU, at least", "mfu_share", mfu.low, mfu.source)
    elif window is not None and peak_of(facts) is None:
        yield Evidence("MFU", "mfu_share", None, "no peak known for this device")
    if facts.allocator is not None and facts.allocator.peak_bytes and facts.memory_bytes:
        peak = facts.allocator.peak_bytes / facts.memory_bytes
        yield Evidence("memory peak", "device_peak_share", peak, "torch's allocator")
    if window is not None:
        if window.tensor_core_share is not None:
            text = "kernel time on tensor cores"
            yield Evidence(text, "tensor_core_share", window.tensor_core_share, WINDOW)
        yield Evidence("kernels a step", "kernels", window.kernels_per_step, WINDOW)
        if window.communication_s > 0:
            yield Evidence("communication a step", "communication_s", window.communication_s, WINDOW)
            hidden = max(0.0, 1 - window.collective_s / window.communication_s)
            yield Evidence("communication hidden", "overlap_share", hidden, WINDOW)
    shown = (
        ("SMs with work", "sm_active_share", driver.sm_active_share),
        ("tensor cores at work", "tensor_active_share", driver.tensor_active_share),
        ("DRAM bandwidth in use", "dram_active_share", driver.dram_active_share),
        ("clock, of the highest", "clock_share", driver.clock_share),
        *(
            (f"of readings: {HELD[name]}", f"{name}_share", share)
            for name, share in held_down(driver).items()
        ),
        ("power, of the limit", "power_share", driver.power_share),
        ("PCIe link, of its widest", "link_share", driver.link_share),
        ("other processes on it", "foreign_processes", driver.foreign_processes or None),
        ("busy time of this job", "our_share", driver.our_share if driver.foreign_processes else None),
    )
    for text, name, value in shown:
        if value is not None:
            yield Evidence(text, name, value, COUNTERS)


def _by_rank(diagnosis: Diagnosis) -> Iterator[Evidence]:
    """Each rank's own time in the profiled steps, of many those of the slowest, and clocks held down."""
    profile = diagnosis.profile
    balance = on_devices(profile)
    ranks = {one.pid: one.rank for one in profile.processes if one.rank is not None}
    busy = [(taken, ranks[pid]) for pid, taken in balance.busy.items() if pid in ranks] if balance else []
    slowest = sorted((rank, taken) for taken, rank in sorted(busy)[-RANKS_AT_MOST:])
    if slowest:
        text = ", ".join(f"{rank}: {1e3 * taken:.3g} ms" for rank, taken in slowest)
        yield Evidence("own time a step by rank", "rank_s", None, text)
    for one in slow_devices(profile, diagnosis.steps):
        yield Evidence(one.text, "slow_clock_share", one.clock, COUNTERS)


class SlowDevice(NamedTuple):
    """A device of another rank that something holds down: its ``clock`` over the highest."""

    name: str
    pid: int
    clock: float
    why: str

    @property
    def text(self) -> str:
        """What its clock is, without the number."""
        return f"clock of {self.name}, held down by {self.why}"


def slow_devices(profile: Profile, steady: list[Step]) -> list[SlowDevice]:
    """Those of the other ranks whose clocks are held down, the slowest first."""
    ranks, found = {one.pid: one.rank for one in profile.processes}, []
    for facts, view in other_views(profile, steady):
        if (loss := clock_loss(view)) is not None and loss < NEARLY_ALL:
            rank = ranks.get(facts.pid)
            name = f"{facts.kind}:{facts.index}" + (f" (rank {rank})" if rank is not None else "")
            why = ", ".join(HELD[name] for name in held_down(view.driver))
            found.append(SlowDevice(name, facts.pid, loss, why))
    return sorted(found, key=lambda one: one.clock)


def _look_first(view: DeviceView) -> str:
    """What costs the device most: pauses, clock, neighbours or kernels; "" without a profiler's window."""
    beat, kernels, loss, own = view.beat, view.facts.kernels or [], clock_loss(view), view.driver.our_share
    if beat is None or beat.wall_s <= 0:
        return ""
    share, text = max((getattr(beat, name) / beat.wall_s, text) for name, text in PAUSES.items())
    if share >= NOTICED:
        return f"{text}, {100 * share:.0f} % of the step"
    if loss is not None and loss < NEARLY_ALL:
        return f"its clock, {100 * loss:.0f} % of the highest"
    if own is not None and own < ALL_BUT_NOISE:
        return f"other processes, {100 * (1 - own):.0f} % of its busy time"
    whole, kinds = sum(one.device_s for one in kernels) or 1.0, Counter[str]()
    for one in kernels:
        kinds[" ".join(filter(None, (one.precision, one.kind)))] += one.device_s / whole  # type: ignore[assignment]
    parts = ", ".join(
        f"{kind} {100 * share:.0f} %" for kind, share in kinds.most_common(2) if share >= NOTICED
    )
    return f"its kernels: {parts}" if parts else ""


UNUSED = "the training uses no accelerator"


def exposed_wait(device: DeviceView) -> Metric:
    """The share of the step in which the accelerator had nothing to do and the loop waited for data."""
    clock, beat = device.clock, device.beat
    if clock is None or clock.wall_s <= 0:
        return Metric(
            None, "share", source=f"needs the accelerator's clock; {device.facts.silent or 'not read'}"
        )
    share = clock.input_s / clock.wall_s
    known = beat.input_s / clock.wall_s if beat is not None else share
    scale = known / share if share > 0 else 1.0  # what `next` itself gives the device to do is no waiting
    ends = (min(1.0, clock.low * scale), min(1.0, clock.high * scale))
    return Metric(min(1.0, known), "share", *ends, clock.looks, "the accelerator's clock")


def gpu_busy(device: DeviceView | None) -> Metric:
    """Some kernel was running: by the accelerator's clock and a profiler's window, else by the driver."""
    if device is None:
        return Metric(None, "share", source=UNUSED)
    if device.beat is not None and device.beat.wall_s > 0:
        source = f"kernels in a profiler's window of {device.beat.steps} steps, on the accelerator's clock"
        share = min(1.0, device.beat.busy_s / device.beat.wall_s)
        return Metric(share, "share", n=device.beat.steps, source=source)
    if device.driver.kernel_share is not None:
        source = "GPU counters: time in which some kernel was resident, however small"
        return Metric(device.driver.kernel_share, "share", source=source)
    driver = ", or GPU counters" if device.facts.kind in ("cuda", "") else ""
    return Metric(None, "share", source=f"needs a profiler's window{driver}")


def gpu_memory(device: DeviceView | None) -> Metric:
    """The peak of memory that torch's allocator held."""
    if device is None:
        return Metric(None, "share", source=UNUSED)
    held, whole = device.facts.allocator, device.facts.memory_bytes
    if held is not None and whole:
        return Metric(held.reserved_bytes / whole, "share", source="torch's allocator")
    return Metric(None, "share", source="torch's allocator was not read")
