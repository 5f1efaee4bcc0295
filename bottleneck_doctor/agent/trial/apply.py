"""How a treatment puts itself in the place of what it changes, and says what became of it."""

from __future__ import annotations

import functools

from ..guard import quiet
from ..hints import Any, Callable, Done, Table
from ..state import state


def reporter(name: str) -> Done:
    """What a treatment calls to say what became of it; each thing is written down once a process."""
    told: set[str] = set()

    @quiet
    def done(why: str = "") -> None:
        if why not in told and len(told) < 8:
            told.add(why)
            state.writer.fact(fact="treated", name=name, why=why[:200])

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
