"""How much of a device's peak arithmetic a step uses (MFU), from the shapes of what it computed.

Of fused attention and of products whose shapes are not known the operations cannot be counted. They ran no
faster than the peak allows, so that their time bounds what they may add.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from ..model.derived import DeviceView
from ..model.device import Convolution, DeviceFacts, Product
from ..model.report import Metric

# Dense operations a second, in 10^12, by the name that torch tells, from the vendor's data sheets [catalogue:
# peak table]. Cards of the same chip with less power (PCIe, NVL) have other peaks, and parts (MIG) less yet.
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
TIGHT = 1.25  # times the lower end; where more may be hidden no single value is named (ours)


@dataclass(frozen=True)
class ArithmeticTime:
    """Of a step: seconds that what was counted takes at the device's peak, that it took, and that arithmetic
    took whose operations are not known."""

    at_peak_s: float
    took_s: float
    uncounted_s: float


def arithmetic(facts: DeviceFacts) -> ArithmeticTime | None:
    """What the recorded steps computed; None where the device's peak or all shapes are unknown."""
    peak = _peak(facts.name)
    counted: list[Product | Convolution] = [*(facts.products or []), *(facts.convolutions or [])]
    if peak is None or not counted or facts.kernels is None:
        return None
    at_peak = took = 0.0
    for one in counted:
        known = peak.get("float16" if one.precision == "bfloat16" else one.precision)
        if known is not None:
            at_peak += operations(one) / (known * 1e12)
            took += one.device_s
    whole = sum(one.device_s for one in facts.kernels if one.kind in ARITHMETIC)
    return ArithmeticTime(at_peak, took, max(0.0, whole - took)) if took > 0 else None


def utilisation(device: DeviceView | None) -> Metric:
    """MFU: what a step would take at the device's peak arithmetic, over what it takes."""
    work = arithmetic(device.facts) if device is not None else None
    if device is None or work is None or device.beat is None or device.beat.wall_s <= 0:
        return Metric(None, "share", source=UNKNOWN)
    wall = device.beat.wall_s
    low, high = work.at_peak_s / wall, min(1.0, (work.at_peak_s + work.uncounted_s) / wall)
    source = "shapes of products and convolutions, over the device's peak in their precision"
    if work.uncounted_s > 0:
        source += f"; {work.uncounted_s / wall:.0%} of the step is arithmetic that could not be counted"
    return Metric(low if high <= TIGHT * low else None, "share", low, high, device.beat.steps, source)


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


def _peak(name: str) -> dict[str, float] | None:
    return next((peak for model, peak in PEAKS.items() if re.fullmatch(model, name)), None)
