"""Applies remedies in a trial, where the supervisor ordered some: one file each, found by its name.

Nothing here is loaded in an ordinary run. A treatment's file exports ``watchers(options, done)``: a table
{module name: callback(module)} as agent/importing.py takes them, whose hooks lie below those that measure,
so that what is measured is the treated training. ``done()`` says that it was applied, ``done(why)`` that it
could not be. Unlike hooks that measure, a treatment may change what the script does: it is there for that.
"""

from __future__ import annotations

import functools
import importlib
import json

from ..guard import quiet
from ..pulse import state

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Table = Mapping[str, Callable[[Any], Any]]
    Done = Callable[..., None]

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
        from . import seed

        tables.append(guarded(seed.watchers(wanted["seed"]), reporter("seed")))
    for one in wanted.get("treatments", ()):
        done = reporter(one["name"])
        if one["name"] == ENVIRONMENT:
            done()
            continue
        try:
            module = importlib.import_module("." + one["name"], __name__)
            tables.append(guarded(module.watchers(one.get("options", {}), done), done))
        except Exception as problem:
            done("%s: %s" % (type(problem).__name__, problem))
    if not wanted.get("losses"):
        return tables, []
    from . import losses

    return tables, [guarded(losses.watchers(wanted["losses"]), reporter("losses"))]


def reporter(name: str) -> Done:
    """What a treatment calls to say what became of it; each thing is written down once a process."""
    told: set[str] = set()

    @quiet
    def done(why: str = "") -> None:
        if why not in told and len(told) < 8:
            told.add(why)
            state.book.fact(fact="treated", name=name, why=why[:200])

    return done


def guarded(table: Table, done: Done) -> Table:
    """The same callbacks; one that fails is written down."""

    def watched(callback: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(module: Any) -> None:
            try:
                callback(module)
            except Exception as problem:
                done("%s: %s" % (type(problem).__name__, problem))

        return call

    return {name: watched(callback) for name, callback in table.items()}


def wrap(owner: Any, name: str, build: Callable[[Any], Any]) -> None:
    """Put ``build(original)`` in the place of ``owner.name``. Unlike ``guard.replace`` it leaves no mark, so
    that the hook which measures the same function still comes on top."""
    original = getattr(owner, name)
    setattr(owner, name, functools.update_wrapper(build(original), original))
