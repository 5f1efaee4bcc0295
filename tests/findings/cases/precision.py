"""Cases of the findings in precision.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.findings.precision import PLAIN
from bottleneck_doctor.model.computing import Computing, Optimizer, ScriptSettings
from bottleneck_doctor.model.derived import DeviceStepBreakdown
from bottleneck_doctor.model.device import DeviceFacts, Kernels, TorchSettings
from bottleneck_doctor.model.diagnosis import Diagnosis, StepCost
from bottleneck_doctor.model.instruments import Operator
from tests.findings.builders import (
    LAUNCHING,
    SATURATED,
    Case,
    accelerator_run,
    cpu_run,
    dispatch_like,
    kernels,
)

# cpu-bf16-unused
BF16_COST = StepCost(0.02, launch=0.001)
PRODUCTS = [Operator("aten::addmm", 6.0, 0.008), Operator("aten::mm", 12.0, 0.009)]
SMALL = [Operator("aten::addmm", 60.0, 0.008), Operator("aten::mm", 120.0, 0.009)]
ABLE = ScriptSettings(1, matmul_precision="highest", autocast=False, amx=True, avx512_bf16=True)


def _bf16_case(
    known: ScriptSettings = ABLE, table: list[Operator] = PRODUCTS, dtype: str = "float32"
) -> Diagnosis:
    """A model of large products, 20 ms a step."""
    weights = Optimizer(1, "AdamW", "torch", 8, 10**7, fused=True, device="cpu", dtype=dtype)
    facts = Computing(switches=[known], optimizers=[weights], anatomies=[dispatch_like(BF16_COST)])
    return cpu_run(BF16_COST, facts, table)


def cpu_bf16_unused() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    return (
        Case("large float32 products on AMX", _bf16_case(), "fires", "cpu-bf16"),
        Case("AVX-512 BF16 alone", _bf16_case(replace(ABLE, amx=False)), "fires", "cpu-bf16"),
        Case("the processor cannot", _bf16_case(replace(ABLE, amx=False, avx512_bf16=False)), "silent"),
        Case("autocast is on", _bf16_case(replace(ABLE, autocast=True)), "silent"),
        Case("products round already", _bf16_case(replace(ABLE, matmul_precision="medium")), "silent"),
        Case("the weights are bfloat16", _bf16_case(dtype="bfloat16"), "silent"),
        Case("small products", _bf16_case(table=SMALL), "silent"),
        Case("this torch cannot say", _bf16_case(replace(ABLE, amx=None)), "abstains"),
    )


# conv-layout
CONV_COST = StepCost(0.04, launch=0.001)
CONVOLUTIONS = [
    Operator("aten::convolution_backward", 6.0, 0.022),
    Operator("aten::mkldnn_convolution", 6.0, 0.01),
    Operator("aten::native_batch_norm", 6.0, 0.006),
]
IMAGES = Optimizer(1, "SGD", "torch", 20, 10**6, device="cpu", kernels=6)


def _conv_case(one: Optimizer = IMAGES, table: list[Operator] = CONVOLUTIONS) -> Diagnosis:
    """A convolutional network's step of 40 ms."""
    return cpu_run(CONV_COST, Computing(optimizers=[one], anatomies=[dispatch_like(CONV_COST)]), table)


def conv_layout() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    return (
        Case("a convolutional network, channels first", _conv_case(), "fires", "channels-last"),
        Case("channels last already", _conv_case(replace(IMAGES, kernels_channels_last=6)), "silent"),
        Case("no wide kernels", _conv_case(replace(IMAGES, kernels=0)), "silent"),
        Case("products take the time", _conv_case(table=[Operator("aten::mm", 6.0, 0.03)]), "silent"),
        Case("no step was profiled", _conv_case(table=[]), "abstains"),
    )


# fp32-tensor-cores-idle
FLOAT32 = [kernels("matmul", 0.7, PLAIN), kernels("elementwise", 0.3, PLAIN)]
TENSORS = [replace(one, tensor_core_share=1.0) for one in FLOAT32]
HALF = [kernels("matmul", 0.6, "bfloat16"), kernels("elementwise", 0.4, PLAIN)]


def _fp32_case(
    beat: DeviceStepBreakdown | None, found: list[Kernels] | None, capability: tuple[int, int] = (8, 0)
) -> Diagnosis:
    return accelerator_run(beat, DeviceFacts(capability=capability, kernels=found, switches=TorchSettings()))


def fp32_tensor_cores_idle() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains; all simulated."""
    return (
        Case("matrix products in float32 on an A100", _fp32_case(SATURATED, FLOAT32), "fires", "tf32"),
        Case("the same on a V100", _fp32_case(SATURATED, FLOAT32, (7, 0)), "fires", "amp"),
        Case("and where launching sets the pace", _fp32_case(LAUNCHING, FLOAT32), "fires"),
        Case("no tensor cores", _fp32_case(SATURATED, FLOAT32, (6, 1)), "silent"),
        Case("float32 by name, TF32 in fact", _fp32_case(SATURATED, TENSORS), "silent"),
        Case("mixed precision already", _fp32_case(SATURATED, HALF), "silent"),
        Case("no window of the profiler", _fp32_case(SATURATED, None), "abstains"),
        Case("only the driver was asked", _fp32_case(None, FLOAT32), "abstains"),
    )
