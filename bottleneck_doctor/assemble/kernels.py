"""What a kernel does, by its name, and matrix products and convolutions by the shapes of their operators."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from ..model.device import Convolution, Product
from .trace_file import Range

TENSOR_KINDS = ("matmul", "convolution", "attention")

# The first match decides. Triton's own prefixes come first: the names of fused operators follow them. Layout
# changes come before convolutions, whose names their helpers carry.
_KINDS = (
    ("elementwise", r"^triton_poi"),
    ("reduction", r"^triton_(red|per)"),
    ("attention", r"^triton_tem.*attention"),
    ("convolution", r"^triton_tem.*conv"),
    ("matmul", r"^triton_(tem|mm)"),
    ("communication", r"nccl|rccl|nvshmem|oneccl|all_?(reduce|gather|to_?all)|reduce_scatter|deep_ep"),
    ("optimizer", r"multi_tensor_apply|adam|lamb_|adagrad|fused_?sgd|triton_for_"),
    ("layout", r"nchw_?to_?nhwc|nhwc_?to_?nchw|ncdhw_?to_?ndhwc|ndhwc_?to_?ncdhw"),
    ("copy", r"catarray|direct_copy|memcpy|memset|transpose|split_with_sizes"),
    ("attention", r"flash|fmha|attention|attn|sdpa|bwd_kernel_d[kq]"),
    ("convolution", r"conv(?!ert)|fprop|dgrad|wgrad|winograd|scudnn|cudnn::cnn|im2d?2?col|igemm_"
                    r"|bwd_(weight|data)"),
    ("matmul", r"gemm|gemv|nvjet|cijk_|^bmm_"),
    ("elementwise", r"dropout|distribution|subtensorop|op_?tensor|generic_tensor|swiglu|rotary|rope_"),
    ("indexing", r"embedding|index|indic|gather|scatter|sort|top_?k|unique|bucketize|by_?key|segment_"),
    ("matmul", r"splitk|cublas|cutlass|_mm_|matmul|bmm|dot_kernel|mma_|epilogue::"),
    ("reduction", r"reduce|softmax|norm|bn_[fb]w|welford|nll_loss|cross_entropy|pool|cumsum"
                  r"|gammabeta|moments|internalgradients|fusedparams|scan|argm(ax|in)|histogram|triton_spl"),
    ("copy", r"copy|permute|_pad|fill|zero_|to_dense|jagged"),
    ("elementwise", r"elementwise|pointwise|quant|functor|gelu|silu|relu|sigmoid|tanh|clamp|where"
                    r"|tri[lu]_|act_"),
)  # fmt: skip

# Types of 16 bits before tf32: their products are called s1688 and s16816 too, after their accumulator.
_PRECISIONS = (
    ("float8", r"e4m3|e5m2|fp8|nvjet_(?:sm\d+_)?q|_f8"),
    ("bfloat16", r"bf16|bfloat|nvjet_(?:sm\d+_)?t|_bb[sb]?_|_bs_"),
    ("float16", r"fp16|f16|half|h884|h1688|h16816|hgemm|hmma|nvjet_(?:sm\d+_)?h|_hh[sh]_|_hb_|_hs_"),
    ("tf32", r"tf32|s1688|nvjet_(?:sm\d+_)?s|_xf32"),
    ("float64", r"dgemm|d884|double|f64|_db_"),
    ("int8", r"imma|i8i8|i8816|i16832|int8"),
    ("float32", r"sgemm|cgemm|scudnn|simt|float|f32|_sb_"),
)
_TENSOR_CORES = (
    r"tensorop|16816|1688|h?884|161616|wmma|hmma|imma|gmma|nvjet|xmma(?!.*(ffma|simt))|warpspecialized"
)
_MATRIX_CORES = r"_mi\d+x\d+|mfma|xdlops|gtcx"  # AMD's name for them

# The arithmetic of a dispatcher's type. Products of float may run in tf32, which only a name shows.
TYPES = {
    "float": "float32", "c10::bfloat16": "bfloat16", "c10::half": "float16", "double": "float64",
    "c10::float8_e4m3fn": "float8", "c10::float8_e5m2": "float8", "signed char": "int8",
}  # fmt: skip

_WRAPPERS = re.compile(r"elementwise_kernel|reduce_kernel$|cutlass|device_kernel$|kentry|apply_kernel")
_kinds = tuple((kind, re.compile(pattern)) for kind, pattern in _KINDS)
_precisions = tuple((name, re.compile(pattern)) for name, pattern in _PRECISIONS)
_tensor = re.compile(_TENSOR_CORES)
_cores = re.compile(f"{_TENSOR_CORES}|{_MATRIX_CORES}")


@lru_cache(maxsize=8192)
def kind_of(name: str, operator: str = "", in_optimizer: bool = False) -> str:
    """The kind of a kernel as ``model.device.Kernels`` names them. ``operator`` launched it: convolutions and
    attention often come down to products, and updates of weights to small operators."""
    lowered = name.lower().replace("(anonymous namespace)::", "").replace("fbgemm_gpu::", "")
    base = re.split(r"[<(]", lowered.removeprefix("void "), maxsplit=1)[0]
    kind = "" if _WRAPPERS.search(base) else _first(base)
    kind = kind or _first(lowered) or "other"
    if kind in ("matmul", "other", "copy", "elementwise", "reduction"):
        if "attention" in operator or "flash" in operator:
            return "attention"
        if kind == "matmul" and "conv" in operator:
            return "convolution"
        if in_optimizer and kind in ("elementwise", "reduction", "other"):
            return "optimizer"
    return kind


def _first(text: str) -> str:
    return next((kind for kind, pattern in _kinds if pattern.search(text)), "")


@lru_cache(maxsize=8192)
def precision_of(name: str, kind: str, types: str = "") -> str:
    """The precision of the arithmetic; ``types`` is the first argument's, as the dispatcher calls it."""
    lowered = name.lower()
    named = next((one for one, pattern in _precisions if pattern.search(lowered)), "")
    declared = TYPES.get(types.lower(), "")
    if kind == "communication":
        return ""  # it moves data and computes hardly anything
    if kind not in TENSOR_KINDS or not named:
        return declared or named
    if named == "float32" and _tensor.search(lowered):
        return "tf32"  # NVIDIA's tensor cores take no float32 otherwise
    if declared in ("bfloat16", "float16") and named not in ("float8", "int8"):
        return declared  # names omit it, or give the type of the accumulator
    return named


@lru_cache(maxsize=8192)
def uses_tensor_cores(name: str, kind: str, precision: str) -> bool | None:
    """Whether a kernel runs on tensor or matrix cores; None where its name does not show it."""
    if kind not in TENSOR_KINDS:
        return False
    if _cores.search(name.lower()):
        return True
    if precision in ("float32", "float64"):
        return False if kind != "attention" else None
    return True if kind == "attention" and precision in ("bfloat16", "float16", "float8") else None


SHAPES_AT_MOST = 64

# Operator -> where its two factors stand among the arguments.
PRODUCTS = {
    "aten::mm": (0, 1), "aten::addmm": (1, 2), "aten::bmm": (0, 1), "aten::baddbmm": (1, 2),
    "aten::_addmm_activation": (1, 2), "aten::addmm_": (1, 2), "aten::baddbmm_": (1, 2),
    "aten::_scaled_mm": (0, 1), "aten::_int_mm": (0, 1),
}  # fmt: skip

# Operator -> where input, weight, stride, padding, dilation and groups stand (native_functions.yaml).
CONVOLUTIONS = {
    "aten::cudnn_convolution": (0, 1, 3, 2, 4, 5),
    "aten::cudnn_convolution_relu": (0, 1, 3, 4, 5, 6),
    "aten::miopen_convolution": (0, 1, 4, 3, 5, 6),
    "aten::convolution_overrideable": (0, 1, 3, 4, 5, 8),
    "aten::convolution_backward": (1, 2, 4, 5, 6, 9),
}


class Timed(NamedTuple):
    """An operator and the device's time for its products, in microseconds and in one precision."""

    operator: Range
    precision: str
    device_us: float


def read_products(timed: Iterable[Timed], steps: int) -> list[Product]:
    """Products by shape and precision, costliest first; those of a batch count one by one."""
    sums = _summed(timed, product_shape, steps)
    found = [Product(m, n, k, precision, *total) for (m, n, k, precision), total in sums.items()]
    return sorted(found, key=lambda product: -product.device_s)[:SHAPES_AT_MOST]


def _summed(
    timed: Iterable[Timed], shape_of: Callable[[Range], tuple[Any, ...] | None], steps: int
) -> dict[tuple[Any, ...], tuple[float, float]]:
    """Calls and seconds per step by shape and precision; a shape's last number: how many in a call."""
    sums: dict[tuple[Any, ...], tuple[float, float]] = {}
    for one in timed:
        if (shape := shape_of(one.operator)) is not None:
            key, many = (*shape[:-1], one.precision), shape[-1]
            calls, taken = sums.get(key, (0.0, 0.0))
            sums[key] = calls + many / steps, taken + one.device_us * 1e-6 / steps
    return sums


def product_shape(operator: Range) -> tuple[int, int, int, int] | None:
    """(m, n, k, how many) of a product; None for what is none."""
    places = PRODUCTS.get(operator.name)
    if places is None:
        return None
    left, right = (_dimensions(operator, place) for place in places)
    if len(left) != len(right) or len(left) not in (2, 3) or left[-1] != right[-2]:
        return None
    return left[-2], right[-1], left[-1], left[0] if len(left) == 3 else 1


def read_convolutions(timed: Iterable[Timed], steps: int) -> list[Convolution]:
    """Convolutions by all that decides which kernel runs, costliest first."""
    found = []
    sums = _summed(timed, _convolution_shape, steps)
    for (*sizes, groups, backward, precision), (calls, taken) in sums.items():
        taken_in, weight, stride, padding, dilation = map(list, sizes)
        found.append(
            Convolution(
                taken_in, weight, stride, padding, dilation, groups, precision, calls, taken, backward
            )
        )
    return sorted(found, key=lambda one: -one.device_s)[:SHAPES_AT_MOST]


def _convolution_shape(operator: Range) -> tuple[Any, ...] | None:
    places = CONVOLUTIONS.get(operator.name)
    if places is None:
        return None
    sizes = [tuple(_dimensions(operator, place)) for place in places[:2]]
    settings = [tuple(_numbers(operator, place)) for place in places[2:5]]
    groups = _numbers(operator, places[5])
    if len(sizes[0]) < 3 or len(sizes[0]) != len(sizes[1]) or not all(settings) or len(groups) != 1:
        return None
    return (*sizes, *settings, groups[0], operator.name.endswith("backward"), 1)


def passing_shapes(convolutions: list[Convolution], steps: int) -> float:
    """Input shapes per 100 steps that only some of the recorded steps had; a constant shape occurs in each
    step."""
    calls: dict[tuple[int, ...], float] = {}
    for one in convolutions:
        if not one.backward:
            key = (*one.input, *one.weight)
            calls[key] = calls.get(key, 0.0) + one.calls
    return 100 * sum(each < 1 for each in calls.values()) / steps


def types_of(operator: Range | None) -> str:
    """The first tensor's type, as the dispatcher calls it."""
    given = operator.given.get("Input type") if operator is not None else None
    return str(given[0])[:64] if isinstance(given, list) and given else ""


def _dimensions(operator: Range, place: int) -> list[int]:
    """The sizes of an argument; empty where it is no tensor."""
    given = operator.given.get("Input Dims", operator.given.get("Input dims"))
    found = given[place] if isinstance(given, list) and len(given) > place else None
    sound = isinstance(found, list) and len(found) <= 8 and all(type(one) is int and one > 0 for one in found)
    return found if sound and found is not None else []


def _numbers(operator: Range, place: int) -> list[int]:
    """The whole numbers of an argument that is no tensor."""
    given = operator.given.get("Concrete Inputs")
    text = given[place] if isinstance(given, list) and len(given) > place else ""
    return [int(one) for one in re.findall(r"\d{1,9}", text)][:8] if isinstance(text, str) else []
