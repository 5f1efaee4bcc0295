"""Cases of the findings in precision.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.findings.precision import PLAIN
from bottleneck_doctor.model.device import DeviceFacts, Kernels, TorchSettings
from bottleneck_doctor.model.diagnosis import Diagnosis, StepCost
from bottleneck_doctor.model.instruments import Operator
from bottleneck_doctor.model.profile import Computing, Optimizer, ScriptSettings
from tests.findings.builders import (
    SATURATED,
    Case,
    abstains,
    accelerator_run,
    cpu_run,
    dispatch_like,
    fires,
    gpu_run,
    kernels,
    silent,
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
    return (
        fires("large float32 products on AMX", _bf16_case(), "cpu-bf16"),
        fires("AVX-512 BF16 alone", _bf16_case(replace(ABLE, amx=False)), "cpu-bf16"),
        silent("the processor cannot", _bf16_case(replace(ABLE, amx=False, avx512_bf16=False))),
        silent("autocast is on", _bf16_case(replace(ABLE, autocast=True))),
        silent("products round already", _bf16_case(replace(ABLE, matmul_precision="medium"))),
        silent("the weights are bfloat16", _bf16_case(dtype="bfloat16")),
        silent("small products", _bf16_case(table=SMALL)),
        abstains("this torch cannot say", _bf16_case(replace(ABLE, amx=None))),
    )


# float64-weights
def float64_weights() -> tuple[Case, ...]:
    light = StepCost(0.001, 0.03)
    weights = Optimizer(1, "Adam", "torch", 8, 10**6, device="cpu", dtype="float64")
    return (
        fires("the model is double", _bf16_case(dtype="float64"), "float32"),
        silent("the weights are float32", _bf16_case()),
        silent("the model hardly computes", cpu_run(light, Computing(optimizers=[weights]))),
        fires("on a GPU", gpu_run(SATURATED, Computing(optimizers=[weights])), "float32"),
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


def _convolving_gpu(share: float) -> Diagnosis:
    found = [kernels("convolution", 0.6, "bfloat16"), kernels("layout", share)]
    facts = Computing(optimizers=[replace(IMAGES, device="cuda")])
    return gpu_run(SATURATED, facts, [Operator("aten::cudnn_convolution", 6.0, 1e-4, 0.01)], found)


def conv_layout() -> tuple[Case, ...]:
    return (
        fires("a convolutional network, channels first", _conv_case(), "channels-last"),
        silent("channels last already", _conv_case(replace(IMAGES, kernels_channels_last=6))),
        silent("no wide kernels", _conv_case(replace(IMAGES, kernels=0))),
        silent("products take the time", _conv_case(table=[Operator("aten::mm", 6.0, 0.03)])),
        fires("a GPU transposes", _convolving_gpu(0.25), "channels-last"),
        silent("a GPU does not", _convolving_gpu(0.0)),
    )


# fp32-tensor-cores-idle
FLOAT32 = [kernels("matmul", 0.7, PLAIN), kernels("elementwise", 0.3, PLAIN)]
TENSORS = [replace(one, tensor_core_share=1.0) for one in FLOAT32]


def _fp32_case(found: list[Kernels] | None, capability: tuple[int, int] = (8, 0)) -> Diagnosis:
    facts = DeviceFacts(capability=capability, kernels=found, switches=TorchSettings())
    return accelerator_run(SATURATED, facts)


def fp32_tensor_cores_idle() -> tuple[Case, ...]:
    return (
        fires("matrix products in float32 on an A100", _fp32_case(FLOAT32), "tf32"),
        fires("the same on a V100", _fp32_case(FLOAT32, (7, 0)), "amp"),
        silent("no tensor cores", _fp32_case(FLOAT32, (6, 1))),
        fires("float32 by name, TF32 in fact", _fp32_case(TENSORS), "amp -tf32"),
        fires("TF32 by name", _fp32_case([kernels("convolution", 0.8, "tf32")]), "amp -tf32"),
        silent("16 bits", _fp32_case([kernels("matmul", 0.8, "bfloat16")])),
        abstains("no window of the profiler", _fp32_case(None)),
    )
