"""What a report says of the accelerator in one breath: how busy, what it waits for, how it is used."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.derived import DeviceView
from ..model.report import DeviceSummary, Evidence, Metric
from .accelerated import clock_loss

LEAST = 0.02  # of the step: shorter waits are not worth a word (ours)
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
    told = [
        *_metrics(metrics),
        *_arithmetic(metrics),
        *_idle(view),
        *_kernels(view),
        *_memory(view),
        *_held_down(view),
    ]
    return DeviceSummary(
        view.facts.name or f"accelerator ({view.facts.kind or 'unknown'})", view.facts.kind, told
    )


def _metrics(metrics: dict[str, Metric]) -> Iterator[Evidence]:
    for text, name in (("busy", "gpu_busy_fraction"), ("waits for data", "exposed_data_wait_fraction")):
        metric = metrics.get(name)
        if metric is not None and metric.value is not None:
            yield Evidence(text, name, metric.value, metric.source)


def _arithmetic(metrics: dict[str, Metric]) -> Iterator[Evidence]:
    metric = metrics.get("mfu")
    if metric is not None and metric.low is not None:
        text = "of its peak arithmetic" if metric.value is not None else "of its peak arithmetic at least"
        yield Evidence(text, "mfu", metric.low, metric.source)


def _idle(view: DeviceView) -> Iterator[Evidence]:
    """The longest first."""
    beat = view.beat
    if beat is None or beat.wall_s <= 0:
        return
    known = [(getattr(beat, part) / beat.wall_s, text, name) for text, name, part in IDLE]
    for share, text, name in sorted(known, reverse=True):
        if share >= LEAST:
            yield Evidence(text, name, share, CLOCK)


def _kernels(view: DeviceView) -> Iterator[Evidence]:
    window = view.facts.window
    if window is None:
        return
    yield Evidence("kernels per step", "kernels", window.kernels_per_step, WINDOW)
    if window.tensor_core_share is not None:
        yield Evidence("of their time on tensor cores", "tensor_core_share", window.tensor_core_share, WINDOW)


def _memory(view: DeviceView) -> Iterator[Evidence]:
    allocator, whole = view.facts.allocator, view.facts.memory_bytes
    if allocator is not None and allocator.peak_bytes and whole:
        yield Evidence(
            "peak of its memory", "device_peak_share", allocator.peak_bytes / whole, "torch's allocator"
        )


def _held_down(view: DeviceView) -> Iterator[Evidence]:
    """Power and clock are worth a word only where something holds the clock down."""
    if (loss := clock_loss(view)) is None:
        return
    yield Evidence("clock, of the highest", "clock_share", loss, "NVML, while busy")
    if view.driver.power_share is not None:
        yield Evidence("power, of the limit", "power_share", view.driver.power_share, "NVML, while busy")
