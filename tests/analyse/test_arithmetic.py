"""The share of a device's peak that a step uses, against torch's own count of its operations. No device."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from bottleneck_doctor.analyse.metrics import operations, utilisation
from bottleneck_doctor.model.derived import DeviceStepBreakdown, DeviceView, DriverView
from bottleneck_doctor.model.device import Convolution, DeviceFacts, Kernels, Product

LARGE = Product(8192, 8192, 8192, "bfloat16", 10, 0.015)  # 11 TFLOP: 11.1 ms at 989 TFLOP/s


def view(*kernels: Kernels, name: str = "NVIDIA H200", product: Product = LARGE) -> DeviceView:
    facts = DeviceFacts(name=name, products=[product], kernels=[Kernels("matmul", 0.015, 10, 1e-3), *kernels])
    return DeviceView(facts, DriverView(), DeviceStepBreakdown(100, 0.0222, 0.0215))


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(("groups", "stride", "dilation"), [(1, 1, 1), (1, 2, 1), (1, 1, 2), (4, 1, 2)])
def test_convolutions_have_as_many_operations_as_torch_counts(
    backward: bool, groups: int, stride: int, dilation: int
) -> None:
    layer = nn.Conv2d(8, 16, 3, stride=stride, padding=1, dilation=dilation, groups=groups)
    batch = torch.randn(2, 8, 19, 23, requires_grad=True)
    with FlopCounterMode(display=False) as forward:
        out = layer(batch)
    with FlopCounterMode(display=False) as back:
        out.sum().backward()
    one = Convolution(
        list(batch.shape), list(layer.weight.shape), [stride] * 2, [1, 1], [dilation] * 2, groups, "tf32",
        1, 1e-3, backward,
    )  # fmt: skip
    if groups > 1 and backward:  # of which torch counts four times as many for the weights
        assert operations(one) == 2 * forward.get_total_flops()
    else:
        assert operations(one) == (back if backward else forward).get_total_flops()


def test_half_of_the_step_at_its_peak() -> None:
    found = utilisation(view())
    assert found.value == pytest.approx(0.5, abs=0.01)
    assert (found.low, found.high) == (found.value, found.value)
    slower = utilisation(view(product=replace(LARGE, precision="tf32", calls=5)))
    assert slower.value == pytest.approx(0.5, abs=0.01), "half the work at half the peak"


def test_arithmetic_that_cannot_be_counted_widens_the_interval_until_there_is_no_value() -> None:
    little = utilisation(view(Kernels("attention", 0.001, 10, 1e-4)))
    assert little.value is not None
    assert little.low is not None
    assert little.high == pytest.approx(little.low + 0.001 / 0.0222)
    much = utilisation(view(Kernels("attention", 0.005, 10, 1e-4)))
    assert much.value is None
    assert much.low == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    "name", ["NVIDIA H100 PCIe", "NVIDIA H200 NVL", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", ""]
)
def test_of_a_device_whose_peak_is_not_known_nothing_is_said(name: str) -> None:
    assert utilisation(view(name=name)).low is None


def test_an_unknown_precision_is_not_counted() -> None:
    assert utilisation(view(product=replace(LARGE, precision=""))).low is None
