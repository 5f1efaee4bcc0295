"""Number formats and memory layouts in which a model could compute faster."""

from __future__ import annotations

from dataclasses import replace

from ..analyse.predict import WORTH
from ..analyse.shares import LARGE_PART, MOST, NOTICED
from ..analyse.threads import LARGE_S
from ..model.device import DeviceView
from ..model.diagnosis import Change, Diagnosis, Finding, Proposal
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .facts import (
    BANDWIDTH_KINDS,
    CLOCK,
    PROFILER,
    SETTINGS,
    TENSOR_KINDS,
    anatomy,
    beat_of,
    computing_cause,
    computing_share,
    is_product,
    kernel_share,
    of_step,
    operators,
    optimizers,
    share_of,
    switches,
)
from .registry import OnCpu, Reach, clocked_loop, device_step, finding, given, profiled_step, snippet
from .remedies import MOSTLY, PARTLY, each, left_of, priced

# cpu-bf16-unused
CAST = Proposal(
    id="cpu-bf16",
    title="compute in bfloat16 where that is safe",
    fix=Fix("forward pass and loss", snippet("precision", "CASTING")),
    apply="hook~",
    risk="numbers change: watch the loss",
    basis="bound",
    treatments=(Treatment("autocast", {"device": "cpu", "dtype": "bfloat16"}),),
)
ROUND = replace(
    CAST,
    id="cpu-fp32-precision-medium",
    title="let float32 products round to bfloat16",
    fix=Fix("before the loop", 'torch.set_float32_matmul_precision("medium")  # weights: float32'),
    treatments=(Treatment("precision", {"matmul": "medium"}),),
)
# times as fast at most with AMX (measured: MLP of width 1024 24.4 to 9.2 ms, a product of 2048 14.4 to 4.1)
WITH_AMX = ((CAST, 2.7), (ROUND, 3.5))
# and by AVX-512 alone, where rounding brings nothing (measured: a product ×1.2, transformers ×0.91, ×0.58)
WITHOUT_AMX = ((CAST, 2.0),)


@finding("model.compute", CAST, ROUND, needs=(OnCpu("on a GPU `fp32-tensor-cores-idle` says it"),))
def cpu_bf16_unused(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when large float32 products run on a processor that could do better."""
    scenario, known = given(diagnosis.scenario), switches(diagnosis)
    if known is None or known.autocast is None or known.amx is None:
        return "what the processor can do and which precision the script has set"
    able = known.amx or known.avx512_bf16
    weights = {one.dtype for one in optimizers(diagnosis)}
    if not able or known.autocast or known.matmul_precision == "medium" or weights != {"float32"}:
        return None
    share, large = share_of(diagnosis, is_product), _large(diagnosis)
    if share < LARGE_PART or large < MOST:
        return None
    proposals = []
    for remedy, times in WITH_AMX if known.amx else WITHOUT_AMX:
        fastest = each(compute=left_of(share, (1.0, 1.0, 1 / times)))
        proposals.append(priced(remedy, scenario, *fastest, most=Change(compute=1 - share)))
    proposals = [one for one in proposals if given(one.factor)[2] >= WORTH]
    evidence = [
        Evidence("share of the operators' time in products", "product_share", share, PROFILER),
        Evidence("share of their time in calls of 0.2 ms and more", "large_operator_share", large, PROFILER),
        Evidence(f"the processor has {'' if known.amx else 'no '}AMX", "amx", None, SETTINGS),
    ]
    return Finding("cpu-bf16-unused", "model.compute", evidence, proposals) if proposals else None


def _large(diagnosis: Diagnosis) -> float:
    """Share of the operators' time in large calls; 0 where the mean product is small."""
    found, products = anatomy(diagnosis), operators(diagnosis, is_product)
    calls = sum(one.calls for one in products)
    if found is None or not calls or sum(one.self_cpu_s for one in products) < LARGE_S * calls:
        return 0.0
    return min(1.0, found.large_s / max(found.own_s, 1e-12))


# float64-weights
DOUBLE = "float64"
# What is left of the time of operators in float64: half the bytes, twice as many numbers in a register
# (measured: 0.40 of a convolutional network)
NARROWER = (0.8, 0.5, 0.4)
SLOWEST = 1 / 64  # of float32's rate, on graphics cards [CUDA C++ Programming Guide]
SINGLE = Proposal(
    id="float32",
    title="compute in float32",
    fix=Fix(
        "where the model and its inputs are made",
        "MODEL = MODEL.float()  # and no torch.set_default_dtype(float64)\n"
        "INPUTS = INPUTS.float()  # of NumPy: data.astype(np.float32), once",
    ),
    effort="hours",
    risk="seven digits in place of sixteen: physics, Gaussian processes and long sums may need them",
    basis="bound",
)


@finding("model.compute", SINGLE, needs=(clocked_loop,))
def float64_weights(diagnosis: Diagnosis) -> Finding | None:
    """Fires when the optimizer's weights are float64 and the model takes a visible part of the step."""
    scenario = given(diagnosis.scenario)
    double = [one for one in optimizers(diagnosis) if one.dtype == DOUBLE]
    share = computing_share(scenario)
    if not double or share < NOTICED:
        return None
    numbers = float(sum(one.elements for one in double))
    evidence = [
        Evidence("share of the step that the model computes", "compute_share", share, "replay"),
        Evidence("numbers in weights of float64", "float64_elements", numbers, "the optimizer"),
    ]
    most = Change(compute=NARROWER[-1], device=SLOWEST)
    proposal = priced(SINGLE, scenario, *each(compute=NARROWER, device=NARROWER), most=most)
    return Finding("float64-weights", computing_cause(diagnosis), evidence, [proposal])


# conv-layout
# times as fast, channels last (measured: 1.01 to 1.08, once 1.35; PyTorch's blog: 1.76)
LAST = (0.9, 1.15, 1.76)
CHANNELS_LAST = Proposal(
    id="channels-last",
    title="lay the channels of a pixel side by side in memory",
    fix=Fix("before the loop, and on each batch of images", snippet("precision", "SNIPPET")),
    apply="hook~",
    risk="grouped convolutions in float32 may slow down; the last digits may differ",
    basis="bound",
    treatments=(Treatment("layout"),),
)


@finding("model.compute", CHANNELS_LAST, needs=(profiled_step,))
def conv_layout(diagnosis: Diagnosis) -> Finding | None:
    """Fires when convolutions take much of the time and none is channels last; on a device, when kernels that
    change the layout take a visible part of its time."""
    if diagnosis.host.accelerated:
        return _transposing(diagnosis)
    scenario, known = given(diagnosis.scenario), optimizers(diagnosis)
    kernels = sum(one.kernels for one in known)
    share = share_of(diagnosis, lambda name: "conv" in name)
    if share < LARGE_PART or not kernels or any(one.kernels_channels_last for one in known):
        return None
    changes = each(compute=left_of(share, [1 / times for times in LAST]))
    proposal = priced(CHANNELS_LAST, scenario, *changes, most=Change(compute=1 - share))
    evidence = [
        Evidence("share of the operators' time in convolutions", "convolution_share", share, PROFILER),
        Evidence("convolution weights that lie channels first", "kernels", float(kernels), "the optimizer"),
    ]
    return Finding("conv-layout", "model.compute", evidence, [proposal])


def _transposing(diagnosis: Diagnosis) -> Finding | None:
    """Tensor cores want the channels of a pixel side by side: cuDNN transposes what lies otherwise. Without
    that, convolutions may gain, too: the bound counts them."""
    scenario, view = given(diagnosis.scenario), given(diagnosis.device)
    share, convolving = (kernel_share(view, (kind,)) for kind in ("layout", "convolution"))
    if share < NOTICED or not convolving:
        return None
    busy = of_step(diagnosis, beat_of(diagnosis).busy_s)
    evidence = [
        Evidence("share of the kernels' time in changes of layout", "layout_share", share, PROFILER),
        Evidence("share of it in convolutions", "convolution_share", convolving, PROFILER),
        Evidence("share of the step in which the device is busy", "gpu_busy_fraction", busy, CLOCK),
    ]
    most = Change(device=max(0.0, 1 - share - convolving))
    proposal = priced(CHANNELS_LAST, scenario, *each(device=left_of(share, MOSTLY)), most=most)
    return Finding("conv-layout", "device.compute", evidence, [proposal])


# fp32-tensor-cores-idle
PLAIN = "float32"
ROUNDED = "tf32"
HALF_TIMES = (1.0, 1.5, 2.0)  # as fast as TF32 [twice: data sheets of A100, H100, B200]
FIRST_WITH_TENSOR_CORES = (7, 0)  # compute capability [NVIDIA]
FIRST_WITH_TF32 = (8, 0)  # and with bfloat16 [NVIDIA]
FAST = ("high", "medium")  # of torch.set_float32_matmul_precision
HALF_BYTES = (1.0, 0.75, 0.5)  # of the time of kernels that wait for memory: half the bytes at best
TF32 = Proposal(
    id="tf32",
    title="let products in float32 use tensor cores (TF32)",
    fix=Fix(
        "before training",
        'torch.set_float32_matmul_precision("high")\ntorch.backends.cudnn.allow_tf32 = True  # the default',
    ),
    basis="bound",
    apply="hook~",
    risk="products keep about three decimal digits; sums stay in float32",
    treatments=(Treatment("precision", {"matmul": "high", "convolutions": True}),),
)
MIXED = Proposal(
    id="amp",
    title="compute in 16 bits where that is safe (mixed precision)",
    fix=Fix("forward pass and loss under autocast", snippet("precision", "AUTOCAST")),
    basis="bound",
    apply="hook~",
    effort="hours",
    risk="overflow and rounding: compare the loss curve with one in float32",
    treatments=(Treatment("autocast", {"device": "cuda", "dtype": "bfloat16"}),),
)
WITH_SCALER = snippet("precision", "WITH_SCALER")


CAPABLE = Reach(("CUDA",), "it goes by the compute capability, which only NVIDIA's devices have")


@finding("device.compute", TF32, MIXED, needs=(device_step,), device=True, reach=CAPABLE)
def fp32_tensor_cores_idle(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when products in float32 or TF32 take much of the time of a device that is faster in 16 bits."""
    scenario, view = given(diagnosis.scenario), given(diagnosis.device)
    if view.facts.capability is None or not view.facts.kernels:
        return "compute capability, and kernels by kind and precision"
    share, rounded = _products(view, TENSOR_KINDS)
    if view.facts.capability < FIRST_WITH_TENSOR_CORES or share + rounded < LARGE_PART:
        return None
    known, proposals = view.facts.switches, []
    newer = view.facts.capability >= FIRST_WITH_TF32
    part, _ = _products(view, ("matmul", "convolution"))
    if newer and share >= LARGE_PART and not (known is not None and known.matmul_precision in FAST):
        changes = each(device=left_of(part, PARTLY))
        proposals.append(priced(TF32, scenario, *changes, most=Change(device=1 - part)))
    if known is None or not known.autocast:
        memory = kernel_share(view, BANDWIDTH_KINDS, PLAIN)
        halves = left_of(rounded, [1 / times for times in HALF_TIMES])
        parts = zip(left_of(share, PARTLY), halves, left_of(memory, HALF_BYTES), strict=True)
        changes = [Change(device=max(0.0, sum(some) - 2)) for some in parts]
        mixed = MIXED if newer else replace(MIXED.at(None, WITH_SCALER), apply="manual", treatments=())
        gone = Change(device=max(0.0, 1 - share - rounded / 2 - memory))
        proposals.append(priced(mixed, scenario, *changes, most=gone))
    busy = of_step(diagnosis, beat_of(diagnosis).busy_s)
    evidence = [
        Evidence("share of the kernels' time in float32 products", "float32_share", share, PROFILER),
        Evidence("share in products in TF32, half as fast as 16 bits", "tf32_share", rounded, PROFILER),
        Evidence("share of the step in which the device is busy", "gpu_busy_fraction", busy, CLOCK),
        Evidence("compute capability {}.{}".format(*view.facts.capability)),
    ]
    evidence = [one for one in evidence if one.value != 0.0]
    found = Finding("fp32-tensor-cores-idle", "device.compute", evidence, proposals)
    return found if proposals or share >= LARGE_PART else None


def _products(view: DeviceView, kinds: tuple[str, ...]) -> tuple[float, float]:
    """Shares of kernel time in products in float32, and in TF32: by name, or float32 on tensor cores."""
    plain = rounded = 0.0
    for one in view.facts.kernels or []:
        if one.kind in kinds and one.precision in (PLAIN, ROUNDED):
            cores = 1.0 if one.precision == ROUNDED else min(1.0, one.tensor_core_share or 0.0)
            plain, rounded = plain + one.device_s * (1 - cores), rounded + one.device_s * cores
    whole = sum(one.device_s for one in view.facts.kernels or [])
    return (plain / whole, rounded / whole) if whole > 0 else (0.0, 0.0)
