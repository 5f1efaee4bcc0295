"""What is derived from the facts before a verdict: the device's step, hot lines, the whole run."""

from __future__ import annotations

from dataclasses import dataclass, field

from .code import Location
from .device import DeviceFacts, DeviceWindow


@dataclass(frozen=True)
class DeviceClockStep:
    """The mean steady step by the device's own clock alone: it shows when the device waited for data, copies
    and saving, not whether it computed or waited for kernel launches in the rest.

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
    heard: bool = False


@dataclass(frozen=True)
class DriverView:
    """What the driver (NVML) reported in the steady window: means over readings of a busy device.

    ``kernel_share`` is NVML's utilisation: time in which some kernel was resident, however small. ``slowed``
    maps a clock event reason to the share of busy readings that showed it. ``our_share`` is this job's part
    of what all processes kept busy, ``None`` if NVML names no process of the job (another pid namespace).
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


@dataclass(frozen=True)
class DeviceView:
    """The accelerator that the training loop uses. ``clock`` is ``None`` where its own clock was not read,
    ``beat``, its mean steady step divided completely, also where no profiler's window says what it did
    between its waits."""

    facts: DeviceFacts
    driver: DriverView
    beat: DeviceWindow | None = None
    clock: DeviceClockStep | None = None


@dataclass(frozen=True)
class HotFunction:
    """A function in the stack samples of one role: the training thread (trainer) or the workers (worker).

    ``own_share``, of the role's ``n`` samples, is the function itself; for the user's own functions
    (``users``) it includes the library code that they called. ``total_share`` includes whatever was called.
    The line is the one it was seen in most. ``on_cpu_share`` is the share of its own samples in which the
    thread was running or runnable, not blocked (asleep, in a lock, reading); None if that was not sampled,
    or in fewer than 20 samples.
    """

    function: str
    location: Location
    role: str
    users: bool
    own_share: float
    total_share: float
    n: int
    on_cpu_share: float | None = None


@dataclass(frozen=True)
class HotOperator:
    """An operator of torch in the profiled step: its own CPU seconds, and their share of all operators'."""

    name: str
    calls: float
    self_cpu_s: float
    self_device_s: float
    share: float


@dataclass(frozen=True)
class Whole:
    """Seconds of a whole run, in training and in evaluation, of the process that the report is about.

    Of both, ``starting_s`` went into starting and stopping workers, ``checkpoint_s`` into saving; ``steps_s``
    is what the training's steps took without these. ``evaluated_at`` is where the training loop evaluates
    without a loader; such an evaluation's time is known from stack samples, their number is not.
    """

    run_s: float = 0.0
    training_s: float = 0.0
    evaluation_s: float = 0.0
    evaluations: int = 0
    starting_s: float = 0.0
    checkpoint_s: float = 0.0
    steps_s: float = 0.0
    evaluated_at: Location | None = None
