"""The metrics of the report, each with its interval, sample count and source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ..model.device import Convolution, DeviceFacts, DeviceView, Product
from ..model.diagnosis import Diagnosis, HostLoad, Step
from ..model.profile import Profile
from ..model.report import DeviceSummary, Evidence, Metric
from ..model.run import Process
from .device import clock_loss
from .predict import side_gains
from .shares import TRACE
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


def measure(
    main: Diagnosis, stretches: list[list[Step]], loose: tuple[float, float] | None = None
) -> dict[str, Metric]:
    """All metrics of the contract; ``value`` is None where nothing was measured.

    The data wait is that of all ``stretches`` of the steady window: the verdict is about one phase of them.
    """
    steps, inputs, loader, device = main.steps, main.inputs, main.loader, main.device
    wait, step = data_wait(steps, loose), Metric(None, "s", source=UNSEEN)
    if len(stretches) > 1:
        every = data_wait([one for stretch in stretches for one in stretch])
        wait = replace(every, source=f"{wait.source}; all phases together")
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
        "gpu_memory_fraction": gpu_memory(main.profile, device),
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
    ends = (times / step.high, times / step.low)
    return Metric(times / step.value, "1/s", *ends, step.n, step.source)


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


# Dense operations a second, in 10^12, by the device name in torch, from the vendor's data sheets. Cards of
# the same chip with less power (PCIe, NVL) have lower peaks, and MIG instances lower ones still.
PEAKS: dict[str, dict[str, float]] = {
    r"NVIDIA H200": {"float32": 67, "tf32": 494, "float16": 989, "float8": 1979},
    r"NVIDIA H100 80GB HBM3": {"float32": 67, "tf32": 494, "float16": 989, "float8": 1979},
    r"NVIDIA A100-\S+": {"float32": 19.5, "tf32": 156, "float16": 312},
    r"NVIDIA L4": {"float32": 30, "tf32": 60, "float16": 121},
    r"Tesla T4": {"float32": 8.1, "float16": 65},
    r"Tesla V100-SXM\S+": {"float32": 15.7, "float16": 125},
}
ARITHMETIC = {"matmul", "convolution", "attention"}
UNKNOWN = "needs a profiler's window with the shapes of products, and a device whose peak is known"
TIGHT = 1.25  # times the lower end; where more may be hidden no single value is named (chosen)


def utilisation(device: DeviceView | None) -> Metric:
    """MFU: what a step's products and convolutions would take at the device's peak, over what it takes."""
    beat, facts = (device.beat, device.facts) if device is not None else (None, DeviceFacts())
    peak = next((peak for model, peak in PEAKS.items() if re.fullmatch(model, facts.name)), None)
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


CLOCK, WINDOW = "the accelerator's clock", "torch.profiler window"

IDLE = (
    ("waits to be given work", "device_launch_share", "launch_s"),
    ("idle after readbacks", "device_sync_share", "sync_s"),
    ("waits for copies", "device_transfer_share", "transfer_s"),
    ("waits for the allocator", "device_memory_share", "memory_s"),
    ("waits for other ranks", "device_collective_share", "collective_s"),
    ("idle while the loop saves or logs", "device_other_share", "other_s"),
)


def summarise(view: DeviceView | None, metrics: dict[str, Metric]) -> DeviceSummary | None:
    """The device's name and what was measured of it; None where none was used."""
    if view is None:
        return None
    name = view.facts.name or f"accelerator ({view.facts.kind or 'unknown'})"
    return DeviceSummary(name, view.facts.kind, list(_evidence(view, metrics)))


def _evidence(view: DeviceView, metrics: dict[str, Metric]) -> Iterator[Evidence]:
    facts, beat, driver = view.facts, view.beat, view.driver
    for text, name in (("busy", "gpu_busy_fraction"), ("waits for data", "exposed_data_wait_fraction")):
        metric = metrics.get(name)
        if metric is not None and metric.value is not None:
            yield Evidence(text, name, metric.value, metric.source)
    mfu = metrics.get("mfu")
    if mfu is not None and mfu.low is not None:
        text = "of its peak arithmetic" if mfu.value is not None else "of its peak arithmetic at least"
        yield Evidence(text, "mfu", mfu.low, mfu.source)
    cores = metrics.get("cores_per_gpu")
    if cores is not None and cores.value is not None:
        yield Evidence("cores that its input needs to keep up", "cores_per_gpu", cores.value, cores.source)
    if beat is not None and beat.wall_s > 0:
        known = [(getattr(beat, part) / beat.wall_s, text, name) for text, name, part in IDLE]
        for share, text, name in sorted(known, reverse=True):
            if share >= TRACE:
                yield Evidence(text, name, share, CLOCK)
    if facts.window is not None:
        yield Evidence("kernels per step", "kernels", facts.window.kernels_per_step, WINDOW)
        on_cores = facts.window.tensor_core_share
        if on_cores is not None:
            yield Evidence("of their time on tensor cores", "tensor_core_share", on_cores, WINDOW)
    if facts.allocator is not None and facts.allocator.peak_bytes and facts.memory_bytes:
        peak = facts.allocator.peak_bytes / facts.memory_bytes
        yield Evidence("peak of its memory", "device_peak_share", peak, "torch's allocator")
    loss = clock_loss(view)
    if loss is not None:  # shown only where something holds the clock down
        yield Evidence("clock, of the highest", "clock_share", loss, "NVML, while busy")
    if driver.power_share is not None:
        yield Evidence("power, of the limit", "power_share", driver.power_share, "NVML, while busy")


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
    """Some kernel was running: by the accelerator's clock and a profiler's window, else by NVML."""
    if device is None:
        return Metric(None, "share", source=UNUSED)
    if device.beat is not None and device.beat.wall_s > 0:
        source = f"kernels in a profiler's window of {device.beat.steps} steps, on the accelerator's clock"
        share = min(1.0, device.beat.busy_s / device.beat.wall_s)
        return Metric(share, "share", n=device.beat.steps, source=source)
    if device.driver.kernel_share is not None:
        source = "NVML: time in which some kernel was resident, however small"
        return Metric(device.driver.kernel_share, "share", source=source)
    driver = ", or NVML" if device.facts.kind in ("cuda", "") else ""
    return Metric(None, "share", source=f"needs a profiler's window{driver}")


def gpu_memory(profile: Profile, device: DeviceView | None) -> Metric:
    """The peak of memory in use, of all processes by NVML, else of torch's allocator."""
    if device is None:
        return Metric(None, "share", source=UNUSED)
    facts = device.facts
    used, whole = (
        max((one for one in profile.series.values.get(name, []) if one is not None), default=None)
        for name in (f"gpu{facts.driver}_memory_used_bytes", f"gpu{facts.driver}_memory_bytes")
    )
    if used is not None and whole:
        return Metric(used / whole, "share", source="NVML")
    if facts.allocator is not None and facts.memory_bytes:
        return Metric(
            facts.allocator.reserved_bytes / facts.memory_bytes, "share", source="torch's allocator"
        )
    return Metric(None, "share", source="neither NVML nor torch's allocator was read")
