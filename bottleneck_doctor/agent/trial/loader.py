"""Builds a DataLoader with other arguments than the script gave: workers, prefetching, pinning, order.

Options: ``arguments`` {name: value} as for DataLoader; ``where`` says which loader is meant, as
agent/trial/loader_match.py compares it, or none for every loader.
"""

from __future__ import annotations

import inspect

from ..hints import Any, Done, Table
from .loader_match import on_construction

# what only a loader with workers takes -> what it is without
NEED_WORKERS = {
    "prefetch_factor": None, "persistent_workers": False, "multiprocessing_context": None, "timeout": 0,
}  # fmt: skip


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Once torch's loader is there."""
    wanted = options.get("arguments", {})

    def change(loader: Any, given: dict[str, Any]) -> dict[str, Any]:
        return settled({**given, **wanted})

    def patch(module: Any) -> None:
        known = inspect.signature(module.DataLoader.__init__).parameters
        unknown = [name for name in wanted if name not in known]
        if unknown:
            done("this torch's DataLoader takes no %s" % unknown[0])
            return
        on_construction(module, options.get("where"), change, done, built=done)

    return {"torch.utils.data.dataloader": patch}


def settled(arguments: dict[str, Any]) -> dict[str, Any]:
    """Without workers, what only workers take is refused by torch."""
    return arguments if arguments.get("num_workers") else {**arguments, **NEED_WORKERS}
