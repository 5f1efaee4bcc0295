"""What findings about an accelerator share: its mean step, its kernels, its memory."""

from __future__ import annotations

from ...model.derived import DeviceView
from ...model.device import DeviceWindow
from ...model.diagnosis import Diagnosis
from .entry import given

CLOCK = "the accelerator's own clock"
DRIVER = "NVML, while busy"
WINDOW = "torch.profiler window"
CALLS = "hooks on copies and waits, in sampled steps"
ACTIVE = "torch.profiler window, or NVML's performance monitors"
ALLOCATOR = "torch.cuda.memory_stats"
TENSOR_KINDS = ("matmul", "convolution", "attention")  # kernels that tensor cores can do
BANDWIDTH_KINDS = ("elementwise", "reduction")  # kernels that wait for the device's memory


def beat_of(diagnosis: Diagnosis) -> DeviceWindow:
    """The device's mean step, for findings that need ``device_step``."""
    return given(given(diagnosis.device).beat)


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
