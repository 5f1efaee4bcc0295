"""Applies remedies in a trial, where the supervisor ordered some.

Nothing here is loaded in an ordinary run. A treatment is a function in settings.py, or a file of its name
that exports ``watchers(options, done)``: a table {module name: callback(module)} as agent/importing.py takes
them, whose hooks lie below those that measure, so that what is measured is the treated training. ``done()``
says that it was applied, ``done(why)`` that it could not be. Unlike hooks that measure, a treatment may
change what the script does: it is there for that.
"""

from __future__ import annotations

import importlib
import json

from ..hints import Any, Table
from . import losses, seed, settings
from .apply import guarded, reporter

ENVIRONMENT = "environment"  # set before the start, by the supervisor


def ordered(file: str) -> tuple[list[Table], list[Table]]:
    """The tables of all that the trial's file orders, and those of what comes on top of the hooks that
    measure, since it is there for a few steps only; what cannot be applied is written down as such."""
    tables: list[Table] = []
    try:
        with open(file, encoding="utf-8") as order:
            wanted = json.load(order)
    except (OSError, ValueError) as problem:
        reporter("order")("the order could not be read: %s" % problem)
        return tables, []
    if wanted.get("seed") is not None:
        tables.append(guarded(seed.watchers(wanted["seed"]), reporter("seed")))
    for one in wanted.get("treatments", ()):
        done = reporter(one["name"])
        if one["name"] == ENVIRONMENT:
            done()
            continue
        try:
            watchers = settings.SETTINGS.get(one["name"]) or _file(one["name"]).watchers
            tables.append(guarded(watchers(one.get("options", {}), done), done))
        except Exception as problem:
            done("%s: %s" % (type(problem).__name__, problem))
    if not wanted.get("losses"):
        return tables, []
    return tables, [guarded(losses.watchers(wanted["losses"]), reporter("losses"))]


def _file(name: str) -> Any:
    return importlib.import_module("." + name, __name__)
