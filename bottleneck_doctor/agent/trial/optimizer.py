"""Has torch's own optimizers update all tensors at once, as if their constructor had been told to.

Options: ``way``, "fused" or "foreach". Optimizers whose class takes no such argument, and those that were
told how to step, stay as they are. What a class refuses of it, its first step says: the script ends there.
"""

from __future__ import annotations

from ..hints import Any, Callable, Done, Table
from .apply import wrap
from .hook_points import told


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Once the class that all optimizers derive from is there."""
    way = str(options["way"])

    def patch(module: Any) -> None:
        wrap(module.Optimizer, "__init__", lambda original: _construction(original, way, done))

    return {"torch.optim.optimizer": patch}


def _construction(original: Callable[..., Any], way: str, done: Done) -> Callable[..., Any]:
    def __init__(self: Any, params: Any, defaults: dict[str, Any]) -> None:
        original(self, params, defaults)
        told(_set, done, self, way, done)

    return __init__


def _set(optimizer: Any, way: str, done: Done) -> None:
    """The groups are what ``step`` reads; it has made no state yet."""
    name = type(optimizer).__name__
    if way not in optimizer.defaults:
        done("%s takes no argument %s" % (name, way))
        return
    for group in (optimizer.defaults, *optimizer.param_groups):
        if group.get("fused") or group.get("foreach"):
            return
        group[way] = True
    if way == "fused":
        optimizer._step_supports_amp_scaling = True  # what the constructor does for it
    done()
