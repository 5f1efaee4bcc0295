"""Applies remedies in a trial, where the supervisor ordered some.

Nothing here is loaded in an ordinary run. A treatment is a function ``name(options, done)`` in the file that
``TREATMENTS`` gives it. It returns a table {module name: callback(module)} as agent/hooks.py takes them,
whose hooks lie below those that measure, so that what is measured is the treated training. ``done()`` says
that it was applied, ``done(why)`` that it could not be. Unlike hooks that measure, a treatment may change
what the script does: it is there for that.
"""

from __future__ import annotations

import importlib
import json
import os

from ..hints import Any, Callable, Done, Table
from ..wire import is_ours, open_ours
from .hook_points import guarded, reason, reporter

ENVIRONMENT = "environment"  # set before the start, by the supervisor
FILES = {
    "from_memory": ("cache", "replay"),
    "loader": ("arrays", "batched", "loader"),
    "model": ("autocast", "compiled", "ddp", "dynamic", "layout", "no_sync", "optimizer", "recompute"),
    "prefetch": ("ahead", "device_ahead", "nonblocking"),
    "settings": (
        "collector", "cudnn", "debug", "descriptors", "empty_cache", "precision", "sharing", "threads",
        "worker_threads",
    ),
    "writing": ("rare_logging", "rare_saving", "saving_aside"),
}  # fmt: skip
TREATMENTS = {name: file for file, names in FILES.items() for name in names}


def begin(add: Callable[..., None]) -> list[Table]:
    """Add what puts aside files that would be overwritten, and what a remedy changes: first, so that what
    measures comes on top of it. Returns what the trial notes, which comes last."""
    folder, order = os.environ.get("BDOC_KEEP"), os.environ.get("BDOC_TRIAL")
    if folder and is_ours(folder):
        from . import backup

        add(backup.watch(folder))
    below, above = ordered(order) if order else ([], [])
    add(*below)
    return above


def treatment(name: str) -> Callable[[dict[str, Any], Done], Table]:
    """The function that applies it; its file is loaded now."""
    return getattr(importlib.import_module("." + TREATMENTS[name], __name__), name)  # type: ignore[no-any-return]


def ordered(file: str) -> tuple[list[Table], list[Table]]:
    """The tables of all that the trial's file orders, and those of what comes on top of the hooks that
    measure, since it is there for a few steps only; what cannot be applied is written down as such."""
    tables: list[Table] = []
    try:
        with os.fdopen(open_ours(file, os.O_RDONLY), encoding="utf-8") as order:
            wanted = json.load(order)
    except (OSError, ValueError) as problem:
        reporter("order")("the order could not be read: %s" % problem)
        return tables, []
    if wanted.get("seed") is not None:
        from . import settings

        tables.append(guarded(settings.seed(wanted["seed"]), reporter("seed")))
    for one in wanted.get("treatments", ()):
        done = reporter(one["name"])
        if one["name"] == ENVIRONMENT:
            done()
            continue
        try:
            tables.append(guarded(treatment(one["name"])(one.get("options", {}), done), done))
        except Exception as problem:
            done(reason(problem))
    if not wanted.get("losses"):
        return tables, []
    from . import losses

    return tables, [guarded(losses.watchers(wanted["losses"]), reporter("losses"))]
