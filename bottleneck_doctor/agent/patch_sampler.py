"""Times the choosing of indices: a loader's ``_next_index``, for close looks and when an epoch begins."""

from __future__ import annotations

from time import monotonic_ns as now
from time import thread_time_ns

from . import wire
from .guard import quiet
from .pulse import state
from .types import Any, Callable


class _Draws:
    """Stands for one iterator's ``_next_index`` for a while."""

    def __init__(self, original: Callable[[Any], Any], iterator: Any) -> None:
        self.original, self.iterator = original, iterator
        self.taken = self.cpu = self.count = 0

    def __call__(self) -> Any:
        start, cpu = now(), thread_time_ns()
        try:
            return self.original(self.iterator)
        finally:
            self.cpu += thread_time_ns() - cpu
            self.taken += now() - start
            self.count += 1


@quiet
def open_sampler(iterator: Any) -> None:
    """From now on this iterator's draws are timed, and only this one's."""
    original = getattr(type(iterator), "_next_index", None)
    if original is not None and "_next_index" not in iterator.__dict__:
        iterator.__dict__["_next_index"] = _Draws(original, iterator)


@quiet
def close_sampler(iterator: Any, loader: int, begins: bool = False) -> None:
    """The iterator is as it was; what its draws took is written down. ``begins``: they began an epoch."""
    draws = iterator.__dict__.pop("_next_index", None)
    if isinstance(draws, _Draws) and draws.count:
        kind = wire.MAKINGS.index("sampler")
        state.row(
            wire.MAKING, now(), draws.taken, draws.cpu, draws.count, kind, int(begins), thing=loader,
            thread=state.thread(),
        )  # fmt: skip
