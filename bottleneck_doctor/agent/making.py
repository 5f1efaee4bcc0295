"""Writes down what hooks inside a fetch found: unpacking, transforms, and an iterable's first batches."""

from __future__ import annotations

from zlib import crc32

from . import wire
from .guard import quiet
from .patch_transforms import close_watch, open_watch
from .payload import view
from .pulse import state
from .types import Any

TRANSFORMS_EVERY = 4  # close fetches between two whose transforms are timed
FIRST_BATCHES = 8  # of an iterable data set in each worker, to see whether two workers give the same
_names: dict[str, int] = {}


def begin(dataset: Any, fetches: int) -> None:
    """A fetch is about to be looked at."""
    state.unpack_ns = state.unpacked = 0
    close_watch()  # a fetch that failed has left it open
    if fetches % TRANSFORMS_EVERY == 0:
        open_watch(dataset)


@quiet
def end(start: int, thing: int, place: int, iterates: bool, data: Any) -> None:
    """It is over; ``place`` counts the fetches of this process from 1."""
    if state.unpack_ns:
        kind = wire.MAKINGS.index("unpack")
        state.row(wire.MAKING, start, 0, state.unpack_ns, state.unpacked, kind, 0, 0, thing)
    for name, spent in close_watch().items():
        kind = wire.MAKINGS.index("transform")
        state.row(wire.MAKING, start, 0, spent, 0, kind, _number(name), 0, thing)
    if iterates and state.worker and place <= FIRST_BATCHES:
        checksum = 0
        for part in view(data):
            checksum = crc32(part[: 1 << 16], checksum)
        state.row(wire.FIRSTLING, start, 0, checksum, place, 0, 0, 0, thing)


def _number(name: str) -> int:
    """A number for a transform's class, written out once per process."""
    number = _names.get(name)
    if number is None:
        number = _names[name] = len(_names) + 1
        state.book.fact(fact="transform", number=number, name=name)
    return number
