"""What a kernel does, in which precision, and whether on tensor cores: read from its name.

Libraries publish no list of their kernels' names, and change them: the tables hold parts of names as cuBLAS,
cuBLASLt, CUTLASS, cuDNN, NCCL, Triton, rocBLAS, MIOpen and PyTorch build them, seen in public traces. What no
line knows is "other", or "" for a precision.
"""

from __future__ import annotations

import re
from functools import lru_cache

TENSOR_KINDS = ("matmul", "convolution", "attention")

# The first that fits decides. What Triton's kernels are comes first, the operators fused into them after it;
# layouts are changed by convolutions' helpers, which bear their names.
_KINDS = (
    ("elementwise", r"^triton_poi"),
    ("reduction", r"^triton_(red|per)"),
    ("attention", r"^triton_tem.*attention"),
    ("convolution", r"^triton_tem.*conv"),
    ("matmul", r"^triton_(tem|mm)"),
    ("communication", r"nccl|rccl|nvshmem|oneccl|all_?(reduce|gather|to_?all)|reduce_scatter|deep_ep"),
    ("optimizer", r"multi_tensor_apply|adam|lamb_|adagrad|fused_?sgd|triton_for_"),
    ("copy", r"nchw_?to_?nhwc|nhwc_?to_?nchw|catarray|direct_copy|memcpy|memset|transpose|split_with_sizes"),
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

# Types of 16 bits before tf32: their products are called s1688 and s16816 too, after what they add up in.
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

# What a dispatcher's type says of the arithmetic: products of float may be tf32, which only a name shows.
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
        return ""  # its numbers are moved, hardly computed with
    if kind not in TENSOR_KINDS or not named:
        return declared or named
    if named == "float32" and _tensor.search(lowered):
        return "tf32"  # NVIDIA's tensor cores take no float32 otherwise
    if declared in ("bfloat16", "float16") and named not in ("float8", "int8"):
        return declared  # names leave it out, or say what is added up in
    return named


@lru_cache(maxsize=8192)
def uses_tensor_cores(name: str, kind: str, precision: str) -> bool | None:
    """Whether a kernel of products runs on the units for them; None where its name does not tell."""
    if kind not in TENSOR_KINDS:
        return False
    if _cores.search(name.lower()):
        return True
    if precision in ("float32", "float64"):
        return False if kind != "attention" else None
    return True if kind == "attention" and precision in ("bfloat16", "float16", "float8") else None
