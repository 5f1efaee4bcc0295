"""Which samples the steps to come ask for, drawn ahead from the loader's own sampler, and undone again."""

from __future__ import annotations

import random
import sys
from itertools import islice

from .. import wire
from ..hints import Any, Callable, Iterable
from ..state import state

# draw from a generator and change nothing else: one may draw from them and put the generator back
PURE = {
    "SequentialSampler",
    "RandomSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
    "DistributedSampler",
}
UNLIMITED = 1 << 32  # steps: nobody asked for an early end
SPARE = 8  # batches that workers begin and no step uses


def wanted(iterator: Any, length: int) -> Iterable[int] | None:
    """Indices of the data set that this run will use, or all of them where it will see them all; None where
    that cannot be known. ``iterator`` is one of torch's that has not begun."""
    steps = _steps()
    sampler = iterator._index_sampler
    grouped = type(sampler).__name__ == "BatchSampler"
    samples = steps * (sampler.batch_size if grouped else 1)
    if samples >= length:
        return range(length)
    inner = sampler.sampler if grouped else sampler
    if type(inner).__name__ not in PURE or not type(inner).__module__.startswith("torch."):
        return None
    undo = keep_random(getattr(inner, "generator", None))
    try:
        ahead = islice(iter(sampler), steps + SPARE)
        return [index for batch in ahead for index in batch] if grouped else list(ahead)
    finally:
        undo()


def _steps() -> int:
    """Steps that this run is allowed."""
    if state.control is None:
        return UNLIMITED
    asked: int = wire.WORD.unpack_from(state.control.map, wire.STOP_AT)[0]
    return min(asked, UNLIMITED) or UNLIMITED


def keep_random(*generators: Any) -> Callable[[], None]:
    """Note the state of every source of random numbers; what is returned puts them back."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    noted: list[tuple[Callable[[Any], object], Any]] = [(random.setstate, random.getstate())]
    if torch is not None:
        noted.append((torch.set_rng_state, torch.get_rng_state()))
    if numpy is not None:
        noted.append((numpy.random.set_state, numpy.random.get_state()))
    noted += [(one.set_state, one.get_state()) for one in generators if one is not None]

    def put_back() -> None:
        for put, value in noted:
            put(value)

    return put_back
