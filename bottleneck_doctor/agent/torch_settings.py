"""What a script has set in torch, and the multiplications behind a loss."""

from __future__ import annotations

import os
import sys
from math import prod

from . import optimizers
from .guard import quiet, without_overrides
from .hints import Any, Iterator
from .state import state

NODES_AT_MOST = 4096  # of the graph, at some microseconds each, once


def nodes(loss: Any) -> Iterator[Any]:
    """The nodes of the graph behind it, each once."""
    waiting = [getattr(loss, "grad_fn", None)]
    seen: set[Any] = set()
    while waiting and len(seen) < NODES_AT_MOST:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting += [before for before, _ in node.next_functions]


def _multiplications(node: Any) -> float:
    """Of a matrix product or a convolution, forward; 0 of any other node."""
    name = str(node.name()).partition("Backward")[0]  # AddmmBackward0
    if name in ("Addmm", "Mm"):
        m, n = _shape(node)
        sizes = node._saved_mat1_sym_sizes if name == "Addmm" else node._saved_self_sym_sizes
        return float(m * int(sizes[1]) * n)
    if name in ("Bmm", "Baddbmm"):
        left, right = node.next_functions[-2:]
        k = _shape(*left)[-1] if left[0] else _shape(*right)[-2] if right[0] else 0
        return float(prod(_shape(node)) * k)
    if name == "Convolution" and not node._saved_transposed and node.next_functions[1][0]:
        return float(prod(_shape(node)) * prod(_shape(*node.next_functions[1])[1:]))
    return 0.0


def _shape(node: Any, number: int = 0) -> list[int]:
    return [int(size) for size in node._input_metadata[number].shape]


VARIABLES = (
    "OMP_NUM_THREADS MKL_NUM_THREADS OMP_PROC_BIND OMP_WAIT_POLICY GOMP_CPU_AFFINITY KMP_BLOCKTIME "
    "CUDA_LAUNCH_BLOCKING HIP_LAUNCH_BLOCKING "
    "TORCH_DISTRIBUTED_DEBUG NCCL_DEBUG TORCH_SHOW_CPP_STACKTRACES TORCH_LOGS PYTHONDEVMODE PYTHONMALLOC "
    "LD_PRELOAD GLIBC_TUNABLES MALLOC_MMAP_MAX_ MALLOC_MMAP_THRESHOLD_ MALLOC_TRIM_THRESHOLD_"
).split()
EARLY_BACKWARDS = 3  # in the warm-up: the graph is read in these backward passes only


def read(torch: Any) -> dict[str, Any]:
    """What holds when the training begins to move, as JSON values; None for what this torch cannot say."""
    sharing: Any = sys.modules.get("torch.multiprocessing")
    return {
        "anomaly": quiet(torch.is_anomaly_enabled)(),
        "matmul_precision": quiet(torch.get_float32_matmul_precision)(),
        "cudnn_benchmark": quiet(lambda: bool(torch.backends.cudnn.benchmark))(),
        "deterministic": quiet(
            lambda: bool(torch.are_deterministic_algorithms_enabled() or torch.backends.cudnn.deterministic)
        )(),
        "autocast": quiet(lambda: any(map(torch.is_autocast_enabled, ("cpu", "cuda"))))(),
        "amx": quiet(lambda: torch.cpu._is_amx_tile_supported())(),
        "avx512_bf16": quiet(lambda: torch.cpu._is_avx512_bf16_supported())(),
        "sharing": quiet(lambda: sharing.get_sharing_strategy())(),
        "tracer": _tool(sys.gettrace()),
        "profiler": "" if _ours() else _tool(sys.getprofile()),
        "development_mode": bool(sys.flags.dev_mode),
        "environment": {name: os.environ[name][:80] for name in VARIABLES if name in os.environ},
    }


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
    """What was seen to be on during a backward pass, each written once; whether its graph was read."""

    anomaly = False
    profiler = False
    graph = False


@without_overrides
def during_backward(losses: Any) -> None:
    """Note switches that scripts set for a part of the step only, and the graph of the first loss."""
    torch: Any = sys.modules["torch"]
    if not _Noticed.anomaly and torch.is_anomaly_enabled():
        _Noticed.anomaly = True
        state.writer.fact(fact="noticed", switch="anomaly")
    if not _Noticed.profiler and state.window is None and torch.autograd._profiler_enabled():
        _Noticed.profiler = True
        state.writer.fact(fact="noticed", switch="profiler")
    if not _Noticed.graph and losses and state.backwards >= EARLY_BACKWARDS:
        _Noticed.graph = True
        share = quiet(lambda: unused_share(losses[0]))()
        state.writer.fact(fact="graph", casts_weights=casts_weights(losses[0]), unused_share=share)
        for table in quiet(lambda: lookups(losses[0]))() or ():
            state.writer.fact(fact="gradient_rows", **table)


def casts_weights(loss: Any) -> bool:
    """Whether weights were cast on their way into the loss: what autocast leaves in the graph."""
    return any(
        node.name() == "ToCopyBackward0"
        and any(one is not None and one.name().endswith("AccumulateGrad") for one, _ in node.next_functions)
        for node in nodes(loss)
    )


def unused_share(loss: Any) -> float | None:
    """Share of the multiplications behind a loss whose gradients reach nothing that an optimizer updates;
    None where no optimizer of this loss is known."""
    trained = optimizers.trained()
    graph = list(nodes(loss)) if trained else []
    used = _reaching(graph, trained)
    if not used or len(graph) >= NODES_AT_MOST:
        return None
    unused = sum(_multiplications(node) for node in graph if node not in used)
    if not unused:  # nearly always: most of what reading costs is spared
        return 0.0
    return unused / sum(map(_multiplications, graph))


def _reaching(graph: list[Any], tensors: set[int]) -> set[Any]:
    """The nodes from which gradients reach one of the tensors."""
    after: dict[Any, list[Any]] = {}
    for node in graph:
        for before, _ in node.next_functions:
            after.setdefault(before, []).append(node)
    waiting = [node for node in graph if id(getattr(node, "variable", None)) in tensors]
    used = set(waiting)
    while waiting:
        more = [one for one in after.get(waiting.pop(), ()) if one not in used]
        used.update(more)
        waiting += more
    return used


def lookups(loss: Any) -> list[dict[str, int]]:
    """Of large tables on a device: at most how many rows a backward pass gives a gradient, by the places that
    are looked up. To read the gradient, as on the CPU, would wait for the device."""
    users: dict[Any, list[Any]] = {}
    trained = optimizers.trained() if state.accelerator is not None else set()
    for node in nodes(loss) if trained else ():
        for before, _ in node.next_functions:
            if id(getattr(before, "variable", None)) in trained:
                users.setdefault(before, []).append(node)
    steps = -(-state.backwards // max(1, state.optimizer_steps))  # backward passes for one update
    found = []
    for leaf, some in users.items():
        table = leaf.variable
        known = all(one.name().startswith("EmbeddingBackward") and not one._saved_sparse for one in some)
        if known and table.device.type != "cpu" and len(table) >= optimizers.ROWS_AT_LEAST:
            rows = len(table)
            touched = min(rows, steps * sum(prod(_shape(one)[:-1]) for one in some))
            found.append({"elements": table.numel(), "rows": rows, "looked": rows, "touched": touched})
    return found
