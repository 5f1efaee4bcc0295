"""How the analysis sees the accelerator over a stretch of steps: its mean step, and what the driver said.

Seconds are means per step, shares run 0 to 1; ``None`` means "not measured", never zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .device import DeviceFacts


@dataclass(frozen=True)
class Clock:
    """The mean steady step by the device's own clock alone: it knows when the device waited for data, copies
    and saving, not whether it computed or waited to be given work in the rest.

    ``input_s``, ``transfer_s`` and ``other_s`` are its idle times as in ``DeviceWindow``, ``rest_s`` what is
    left of ``wall_s``; ``low`` and ``high`` bound the share of ``input_s`` (90 %). ``issue_s`` is the loop's
    own time without waits for data, device, copies and saving; ``inside_s`` and ``blocked_s`` its time in
    calls that wait for the device and in copies that block. ``caught_up`` is the share of steps at whose end
    the device had nothing left to do.
    """

    looks: int
    wall_s: float
    input_s: float
    rest_s: float
    low: float = 0.0
    high: float = 0.0
    transfer_s: float = 0.0
    other_s: float = 0.0
    issue_s: float = 0.0
    inside_s: float = 0.0
    blocked_s: float = 0.0
    caught_up: float | None = None
    backward_s: float = 0.0
    optimizer_s: float = 0.0
    heard: bool = False


@dataclass(frozen=True)
class Beat:
    """The device's mean steady step, all of it divided: names as in ``DeviceWindow``."""

    steps: int
    wall_s: float
    busy_s: float
    input_s: float = 0.0
    launch_s: float = 0.0
    sync_s: float = 0.0
    transfer_s: float = 0.0
    memory_s: float = 0.0
    collective_s: float = 0.0
    other_s: float = 0.0
    host_s: float = 0.0


@dataclass(frozen=True)
class DriverView:
    """What the driver (NVML) said during the steady window: means over readings of a busy device.

    ``kernel_share`` is NVML's utilisation: time in which some kernel was resident, however small. ``slowed``
    maps a clock event reason to the share of busy readings that showed it. ``our_share`` is this job's part
    of what all processes kept busy, ``None`` where the driver's process numbers are not ours.
    ``sm_active_share`` is that of multiprocessors with work, over all the time and not only while busy.
    """

    readings: int = 0
    kernel_share: float | None = None
    clock_share: float | None = None
    slowed: dict[str, float] = field(default_factory=dict)
    power_share: float | None = None
    power_limit_w: float | None = None
    power_default_w: float | None = None
    link_share: float | None = None
    link_gen: float | None = None
    link_gen_max: float | None = None
    link_width: float | None = None
    link_width_max: float | None = None
    memory_bytes: float | None = None
    foreign_bytes: float | None = None
    foreign_processes: float | None = None
    our_share: float | None = None
    sm_active_share: float | None = None
    partitioned: bool = False


@dataclass(frozen=True)
class DeviceView:
    """The accelerator that the training loop uses. ``clock`` is ``None`` where its own clock was not read,
    ``beat`` also where no profiler's window says what it did between its waits."""

    facts: DeviceFacts
    driver: DriverView
    beat: Beat | None = None
    clock: Clock | None = None
