"""Reads what a script has set: debugging, numerics, threads, and what this processor could do."""

from __future__ import annotations

import os
import sys

from . import shapes
from .guard import quiet
from .pulse import state
from .types import Any, Callable

VARIABLES = (
    "OMP_NUM_THREADS MKL_NUM_THREADS OMP_PROC_BIND GOMP_CPU_AFFINITY KMP_BLOCKTIME CUDA_LAUNCH_BLOCKING "
    "TORCH_DISTRIBUTED_DEBUG NCCL_DEBUG TORCH_SHOW_CPP_STACKTRACES TORCH_LOGS PYTHONDEVMODE PYTHONMALLOC "
    "LD_PRELOAD GLIBC_TUNABLES MALLOC_MMAP_MAX_ MALLOC_MMAP_THRESHOLD_ MALLOC_TRIM_THRESHOLD_"
).split()
EARLY_BACKWARDS = 3  # the graph is looked at while the run is still warming up


def note(torch: Any) -> None:
    """Write down once what holds when the training begins to move."""
    state.book.fact(fact="switches", **read(torch))


def read(torch: Any) -> dict[str, Any]:
    """JSON values; None for what this torch cannot say."""
    sharing: Any = sys.modules.get("torch.multiprocessing")
    return {
        "anomaly": _ask(torch.is_anomaly_enabled),
        "deterministic": _ask(torch.are_deterministic_algorithms_enabled),
        "matmul_precision": _ask(torch.get_float32_matmul_precision),
        "cudnn_benchmark": _ask(lambda: bool(torch.backends.cudnn.benchmark)),
        "interop_threads": _ask(torch.get_num_interop_threads),
        "autocast": _ask(lambda: bool(torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled())),
        "amx": _ask(lambda: torch.cpu._is_amx_tile_supported()),
        "avx512_bf16": _ask(lambda: torch.cpu._is_avx512_bf16_supported()),
        "sharing": _ask(lambda: sharing.get_sharing_strategy()),
        "tracer": _tool(sys.gettrace()),
        "profiler": "" if _ours() else _tool(sys.getprofile()),
        "development_mode": bool(sys.flags.dev_mode),
        "environment": {name: os.environ[name][:80] for name in VARIABLES if name in os.environ},
    }


def _ask(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except Exception:
        return None


def _tool(function: Any) -> str:
    """Whose trace or profile function it is, by the module of its type or its own."""
    if function is None:
        return ""
    kind = type(function)
    named = kind.__module__ if kind.__module__ != "builtins" else getattr(function, "__module__", "")
    return str(named or kind.__name__)


def _ours() -> bool:
    """Whether the script runs under bdoc's own ``--cprofile``."""
    frame: Any = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
    return str(frame.f_code.co_filename).endswith("under_cprofile.py")


class _Noticed:
    """What was seen to be on during a backward pass, each written once; whether its graph was looked at."""

    anomaly = False
    profiler = False
    graph = False


@quiet
def during_backward(losses: Any) -> None:
    """At a close look: switches that scripts set for a part of the step only."""
    torch: Any = sys.modules["torch"]
    if not _Noticed.anomaly and torch.is_anomaly_enabled():
        _Noticed.anomaly = True
        state.book.fact(fact="noticed", switch="anomaly")
    if not _Noticed.profiler and state.window is None and torch.autograd._profiler_enabled():
        _Noticed.profiler = True
        state.book.fact(fact="noticed", switch="profiler")
    if not _Noticed.graph and losses and state.backwards >= EARLY_BACKWARDS:
        _Noticed.graph = True
        state.book.fact(fact="graph", casts_weights=casts_weights(losses[0]))
        shapes.note(losses[0])


def casts_weights(loss: Any) -> bool:
    """Whether weights were cast on their way into the loss: what autocast leaves in the graph."""
    return any(
        node.name() == "ToCopyBackward0"
        and any(one is not None and one.name().endswith("AccumulateGrad") for one, _ in node.next_functions)
        for node in shapes.nodes(loss)
    )
