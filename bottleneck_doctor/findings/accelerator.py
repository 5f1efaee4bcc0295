"""What the findings about an accelerator share: when they cannot say, parts of the device's time, its calls.

A run without an accelerator has no ``DeviceView``: these findings are silent there, not blind.
"""

from __future__ import annotations

from ..model.code import Location
from ..model.derived import DeviceStepBreakdown, DeviceView
from ..model.diagnosis import Abstention, Diagnosis

CLOCK = "the accelerator's own clock"
DRIVER = "NVML, while busy"
WINDOW = "torch.profiler window"
CALLS = "hooks on copies and waits, in steps that were looked at"
ACTIVE = "torch.profiler window, or NVML's performance monitors"
ALLOCATOR = "torch.cuda.memory_stats"

TENSOR_KINDS = ("matmul", "convolution", "attention")  # kernels that tensor cores can do
BANDWIDTH_KINDS = ("elementwise", "reduction")  # kernels that wait for the device's memory


def unclocked(diagnosis: Diagnosis, finding: str) -> Abstention | None:
    """Abstain where the device's step could not be divided: the driver cannot say who waits for whom, nor can
    its clock say whether it computes or waits to be given work."""
    view = diagnosis.device
    if diagnosis.scenario is None or view is None or (view.clock is None and view.beat is None):
        return Abstention(finding, f"{CLOCK} in a steady training loop")
    if view.beat is None or view.beat.wall_s <= 0:
        return Abstention(finding, "a profiler's window of the accelerator's kernels")
    return None


def beat_of(diagnosis: Diagnosis) -> DeviceStepBreakdown:
    """The device's mean step. Only after ``unclocked`` had nothing to say."""
    assert diagnosis.device is not None, "ask `unclocked` first"
    assert diagnosis.device.beat is not None, "ask `unclocked` first"
    return diagnosis.device.beat


def of_step(diagnosis: Diagnosis, seconds: float) -> float:
    """Seconds of the device's mean step as a share of it."""
    return seconds / max(beat_of(diagnosis).wall_s, 1e-12)


def kernel_share(view: DeviceView, kinds: tuple[str, ...], precision: str = "") -> float:
    """The share of all kernels' device time that kernels of these kinds (in one precision) take."""
    kernels = view.facts.kernels or []
    whole = sum(one.device_s for one in kernels)
    mine = [one for one in kernels if one.kind in kinds and precision in ("", one.precision)]
    return sum(one.device_s for one in mine) / whole if whole > 0 else 0.0


def peak_share(view: DeviceView) -> float | None:
    """The allocator's peak over the device's memory."""
    whole = view.facts.memory_bytes or view.driver.memory_bytes
    allocator = view.facts.allocator
    return allocator.peak_bytes / whole if allocator is not None and allocator.peak_bytes and whole else None


def saving(share: float, times_faster: float) -> float:
    """What is left of the device's time when a share of it runs that many times as fast."""
    return 1 - share * (1 - 1 / times_faster)


def place(file: str, line: int) -> Location | None:
    """A line of the user's code, where one is known."""
    return Location(file, line) if file else None
