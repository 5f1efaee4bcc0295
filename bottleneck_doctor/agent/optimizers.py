"""Says what each optimizer updates, and of its largest tables how many rows got a gradient."""

from __future__ import annotations

import sys
import weakref

from .guard import dispatching, replace, when_built, without_overrides
from .hints import Any, FrameType
from .state import _users_frame, state

DESCRIBED_AT_MOST = 10_000  # parameters
ROWS_AT_LEAST, ROWS_AT_MOST = 4096, 1024  # of a matrix to be read at all; and how many are read

_made: dict[int, tuple[str, int]] = {}
_alive: Any = weakref.WeakSet()  # all optimizers that were built, or stepped in a sampled step
_known: dict[int, Any] = {}


def watch(module: Any) -> None:
    """``module`` is torch.optim.optimizer: remember which line built each optimizer."""
    replace(module.Optimizer, "__init__", when_built(_remember))


def _remember(optimizer: Any, frame: FrameType | None, _: object) -> None:
    found = _users_frame(frame)
    _alive.add(optimizer)
    if found is not None and len(_made) < 256:
        _made[id(optimizer)] = (found.f_code.co_filename, found.f_lineno)


@without_overrides
def note(optimizer: Any, closure: bool) -> None:
    """At a sampled step: describe an optimizer the first time that it steps in this process."""
    noted = _known.get(id(optimizer))
    if (noted is not None and noted() is optimizer) or len(_known) >= 64:
        return
    _known[id(optimizer)] = weakref.ref(optimizer)
    _alive.add(optimizer)
    state.writer.fact(fact="optimizer", closure=closure, **_describe(optimizer))
    for one in _tables(optimizer):
        state.writer.fact(fact="gradient_rows", **_rows(one))


def trained() -> set[int]:
    """The ``id`` of each tensor that an optimizer updates; none before the first has stepped."""
    return {id(one) for each in (list(_alive) if _known else ()) for one in _tensors(each)}


def _tensors(optimizer: Any) -> list[Any]:
    return [one for group in optimizer.param_groups for one in group["params"]]


def _describe(optimizer: Any) -> dict[str, Any]:
    """Its class, how it steps, and what its parameters are like."""
    group = optimizer.param_groups[0]
    updated = _tensors(optimizer)[:DESCRIBED_AT_MOST]
    local = [getattr(one, "_local_tensor", one) for one in updated]  # of a DTensor, this rank's shard
    kernels = [one for one in updated if one.dim() == 4 and one.shape[1] > 1 and one.shape[2] > 1]
    file, line = _made.get(id(optimizer), ("", 0))
    return {
        "name": type(optimizer).__name__,
        "library": type(optimizer).__module__.partition(".")[0],
        "groups": len(optimizer.param_groups),
        "unlike_groups": len({str(sorted(_options(one).items())) for one in optimizer.param_groups}),
        "tensors": len(updated),
        "elements": sum(one.numel() for one in local),
        "fused": bool(group.get("fused")),
        "foreach": _in_groups(group, updated[0].device.type if updated else ""),
        "fusible": "fused" in group,
        "momentum": bool(group.get("momentum")),
        "device": updated[0].device.type if updated else "",
        "dtype": str(updated[0].dtype).rpartition(".")[2] if updated else "",
        "kernels": len(kernels),
        "kernels_channels_last": sum(one.stride(1) == 1 for one in kernels),
        "file": file,
        "line": line,
    }


def _options(group: dict[str, Any]) -> dict[str, Any]:
    """A group's options that are numbers, switches or texts; a tensor's value may be on a device."""
    return {name: one for name, one in group.items() if type(one) in (int, float, bool, str, tuple)}


def _in_groups(group: dict[str, Any], device: str) -> bool:
    """Whether many tensors are updated in one call: on some devices, torch does so by itself."""
    asked = group.get("foreach", False)
    return device in ("cuda", "xpu", "mtia") if asked is None else bool(asked)


def _tables(optimizer: Any) -> list[Any]:
    """Its largest matrices of many rows with a dense gradient: batches may look rows up in them."""
    if dispatching():
        return []
    matrices = [
        one
        for one in _tensors(optimizer)
        if one.dim() == 2 and one.shape[0] >= ROWS_AT_LEAST and one.device.type == "cpu"
    ]
    torch: Any = sys.modules["torch"]
    dense = (torch.Tensor, torch.nn.Parameter)
    known = [one for one in matrices if type(one.grad) in dense and one.grad.layout == torch.strided]
    return sorted(known, key=lambda one: -one.numel())[:8]


def _rows(table: Any) -> dict[str, int]:
    """How many of some rows, evenly spread, the last backward pass gave a gradient."""
    some = table.grad.detach()[:: -(-len(table) // ROWS_AT_MOST)]
    touched = int((some != 0).any(dim=1).sum())
    return {"elements": table.numel(), "rows": len(table), "looked": len(some), "touched": touched}
