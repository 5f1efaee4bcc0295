"""What a script has set in torch, and the shapes of the costly work behind a loss."""

from __future__ import annotations

import os
import sys

from . import optimizers
from .guard import quiet
from .hints import Any, Iterator
from .overrides import without_overrides
from .state import state

NODES_AT_MOST = 4096  # of the graph, at some microseconds each, once
SHAPES_AT_MOST = {"product": 16, "convolution": 16, "attention": 4}  # written down, the costliest of each
FAR = 10  # nodes between a softmax and the products around it, at most
VIEWS = ("View", "UnsafeView", "Expand", "ReshapeAlias", "Transpose", "T", "Permute", "Unsqueeze", "Squeeze")
MASKS = ("MaskedFill", "Where", "Add")


@quiet
def note_shapes(loss: Any) -> None:
    """Write down the costliest shapes behind a loss, one fact each."""
    counted: dict[tuple[Any, ...], int] = {}
    for node in nodes(loss):
        for found in _read(node):
            key = tuple(sorted((name, tuple(one) if isinstance(one, list) else one)
                               for name, one in found.items()))  # fmt: skip
            counted[key] = counted.get(key, 0) + 1
    shapes = [dict(key, calls=calls) for key, calls in counted.items()]
    for kind, at_most in SHAPES_AT_MOST.items():
        mine = [one for one in shapes if one["kind"] == kind]
        for one in sorted(mine, key=lambda shape: -shape["calls"] * _work(shape))[:at_most]:
            state.writer.fact(fact=kind, **{name: value for name, value in one.items() if name != "kind"})


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


def _read(node: Any) -> Iterator[dict[str, Any]]:
    name = _name(node)
    if name in ("Addmm", "Mm"):
        yield _layer(node, name)
    elif name in ("Bmm", "Baddbmm"):
        left, right = node.next_functions[-2:]
        k = _shape(*left)[-1] if left[0] else _shape(*right)[-2] if right[0] else 0
        batch, m, n = _shape(node)
        yield {**_said(node, "product", left[0]), "batch": batch, "m": m, "k": k, "n": n}
        yield from _attention(node)
    elif name == "Convolution" and not node._saved_transposed and node.next_functions[1][0]:
        yield _convolution(node)


def _name(node: Any) -> str:
    """``AddmmBackward0`` is ``Addmm``."""
    return str(node.name()).partition("Backward")[0]


def _shape(node: Any, number: int = 0) -> list[int]:
    return [int(size) for size in node._input_metadata[number].shape]


def _said(node: Any, kind: str, before: Any) -> dict[str, Any]:
    what = node._input_metadata[0]
    dtype = str(what.dtype).rpartition(".")[2]
    return {"kind": kind, "device": what.device.type, "dtype": dtype, "inputs": before is not None}


def _layer(node: Any, name: str) -> dict[str, Any]:
    m, n = _shape(node)
    sizes = node._saved_mat1_sym_sizes if name == "Addmm" else node._saved_self_sym_sizes
    said = _said(node, "product", node.next_functions[-2][0])
    return {**said, "batch": 0, "m": m, "k": int(sizes[1]), "n": n}


def _convolution(node: Any) -> dict[str, Any]:
    before, weight = node.next_functions[:2]
    kernel, result, groups = _shape(*weight), _shape(node), int(node._saved_groups)
    stride, padding, dilation = (
        [int(one) for one in each] for each in (node._saved_stride, node._saved_padding, node._saved_dilation)
    )
    steps = zip(result[2:], kernel[2:], stride, padding, dilation)
    places = [(out - 1) * by - 2 * pad + apart * (wide - 1) + 1 for out, wide, by, pad, apart in steps]
    known = _shape(*before) if before[0] else [result[0], kernel[1] * groups, *places]
    return {
        **_said(node, "convolution", before[0]), "input": known, "weight": kernel, "stride": stride,
        "padding": padding, "dilation": dilation, "groups": groups,
    }  # fmt: skip


def _attention(values: Any) -> Iterator[dict[str, Any]]:
    """``values`` is a batched product; it belongs to attention if its left side comes from a softmax over
    another one."""
    after, softmax = _down_to(values.next_functions[-2][0], "Softmax")
    if softmax is None:
        return
    between, scores = _down_to(softmax.next_functions[0][0], "Bmm", "Baddbmm")
    if scores is None or _shape(scores)[:2] != _shape(values)[:2]:
        return
    left, right = scores.next_functions[-2:]
    batch, queries, keys = _shape(scores)
    said = _said(values, "attention", None)
    del said["inputs"]
    yield {
        **said, "batch": batch, "queries": queries, "keys": keys, "value_width": _shape(values)[2],
        "width": _shape(*left)[-1] if left[0] else _shape(*right)[-2] if right[0] else 0,
        "between": sum(name not in VIEWS for name in between),
        "masked": any(name in MASKS for name in between) or _name(scores) == "Baddbmm",
        "dropout": any(name in ("Mul", "NativeDropout") for name in after),
    }  # fmt: skip


def _down_to(node: Any, *wanted: str) -> tuple[list[str], Any]:
    """Names on the way down to the first node of a wanted name, and that node, or None."""
    passed: list[str] = []
    while node is not None and len(passed) < FAR and _name(node) not in wanted:
        passed.append(_name(node))
        node = next((before for before, _ in node.next_functions if before is not None), None)
    return passed, node if node is not None and _name(node) in wanted else None


def _work(shape: dict[str, Any]) -> float:
    """Multiplications of one call, forward."""
    if shape["kind"] == "product":
        return float(max(1, shape["batch"]) * shape["m"] * shape["k"] * shape["n"])
    if shape["kind"] == "attention":
        widths = shape["width"] + shape["value_width"]
        return float(shape["batch"] * shape["queries"] * shape["keys"] * widths)
    places = _product(shape["input"]) * _product(shape["weight"][:1] + shape["weight"][2:])
    return places / _product(shape["stride"]) / float(shape["groups"])


def _product(sizes: Any) -> float:
    result = 1.0
    for size in sizes:
        result *= size
    return result


VARIABLES = (
    "OMP_NUM_THREADS MKL_NUM_THREADS OMP_PROC_BIND GOMP_CPU_AFFINITY KMP_BLOCKTIME CUDA_LAUNCH_BLOCKING "
    "TORCH_DISTRIBUTED_DEBUG NCCL_DEBUG TORCH_SHOW_CPP_STACKTRACES TORCH_LOGS PYTHONDEVMODE PYTHONMALLOC "
    "LD_PRELOAD GLIBC_TUNABLES MALLOC_MMAP_MAX_ MALLOC_MMAP_THRESHOLD_ MALLOC_TRIM_THRESHOLD_"
).split()
EARLY_BACKWARDS = 3  # the graph is looked at while the run is still warming up


def note_settings(torch: Any) -> None:
    """Write down once what holds when the training begins to move."""
    state.writer.fact(fact="switches", **read(torch))


def read(torch: Any) -> dict[str, Any]:
    """JSON values; None for what this torch cannot say."""
    sharing: Any = sys.modules.get("torch.multiprocessing")
    return {
        "anomaly": quiet(torch.is_anomaly_enabled)(),
        "deterministic": quiet(torch.are_deterministic_algorithms_enabled)(),
        "matmul_precision": quiet(torch.get_float32_matmul_precision)(),
        "cudnn_benchmark": quiet(lambda: bool(torch.backends.cudnn.benchmark))(),
        "interop_threads": quiet(torch.get_num_interop_threads)(),
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
    """What was seen to be on during a backward pass, each written once; whether its graph was looked at."""

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
        note_shapes(losses[0])


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
    unused = sum(_work(shape) for node in graph if node not in used for shape in _read(node))
    if not unused:  # nearly always: most of what reading costs is spared
        return 0.0
    return unused / sum(_work(shape) for node in graph for shape in _read(node))


def work_behind(loss: Any, groups: dict[int, set[int]]) -> tuple[dict[frozenset[int], float], set[int]]:
    """The multiplications behind a loss by the ``groups`` of tensors, by ``id``, that gradients reach; and
    the tensors that the graph holds. Nothing of a graph too large to be walked."""
    graph = list(nodes(loss))
    if len(graph) >= NODES_AT_MOST:
        return {}, set()
    reaching = {key: _reaching(graph, tensors) for key, tensors in groups.items()}
    work: dict[frozenset[int], float] = {}
    for node in graph:
        reached = frozenset(key for key, some in reaching.items() if node in some)
        for shape in _read(node):
            work[reached] = work.get(reached, 0) + _work(shape)
    return work, {id(getattr(node, "variable", None)) for node in graph}


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
