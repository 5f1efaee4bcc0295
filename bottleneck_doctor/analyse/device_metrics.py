"""The metrics about an accelerator; each says who measured it, or why nobody did."""

from __future__ import annotations

from ..model.derived import DeviceView
from ..model.profile import Profile
from ..model.report import Metric

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
    """Some kernel was running: by the accelerator's clock and a profiler's window, else by NVML's word."""
    if device is None:
        return Metric(None, "share", source=UNUSED)
    if device.beat is not None and device.beat.wall_s > 0:
        source = f"kernels in a profiler's window of {device.beat.steps} steps, on the accelerator's clock"
        share = min(1.0, device.beat.busy_s / device.beat.wall_s)
        return Metric(share, "share", n=device.beat.steps, source=source)
    if device.driver.kernel_share is not None:
        source = "NVML: time in which some kernel was resident, however small"
        return Metric(device.driver.kernel_share, "share", source=source)
    return Metric(None, "share", source=f"needs a profiler's window{_or_driver(device)}")


def _or_driver(device: DeviceView) -> str:
    return ", or NVML" if device.facts.kind in ("cuda", "") else ""


def gpu_memory(profile: Profile, device: DeviceView | None) -> Metric:
    """The most that was in use, by everybody as NVML sees it, else by torch's allocator."""
    if device is None:
        return Metric(None, "share", source=UNUSED)
    facts = device.facts
    used, whole = (
        max(_known(profile, f"gpu{facts.driver}_{name}"), default=None)
        for name in ("memory_used_bytes", "memory_bytes")
    )
    if used is not None and whole:
        return Metric(used / whole, "share", source="NVML")
    if facts.allocator is not None and facts.memory_bytes:
        return Metric(
            facts.allocator.reserved_bytes / facts.memory_bytes, "share", source="torch's allocator"
        )
    return Metric(None, "share", source="neither NVML nor torch's allocator was asked")


def _known(profile: Profile, name: str) -> list[float]:
    return [value for value in profile.series.values.get(name, []) if value is not None]
