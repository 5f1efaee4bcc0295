"""Tells gradients that are zeroed before they are used, as a generator's in its discriminator's step."""

from __future__ import annotations

import weakref

from . import optimizers
from .guard import quiet
from .hints import Any
from .overrides import dispatching, without_overrides
from .state import state
from .torch_settings import work_behind

LOOKS = 8  # backward passes in a row whose graphs are walked: some rounds of all losses
PATIENCE = 8  # passes after them, in which what they gave is zeroed or used
WALKS_AT_MOST = 32  # in all: sampled steps may be too short for LOOKS + PATIENCE passes each


class _Pass:
    """What was multiplied for a loss, by the optimizers whose tensors it reaches; of each of them a tensor
    whose gradient has neither been used nor zeroed yet."""

    def __init__(self, work: dict[frozenset[int], float], waiting: dict[int, Any]) -> None:
        self.work, self.waiting = work, waiting
        self.dropped: set[int] = set()
        self.used = False

    def dropped_work(self) -> float:
        """Multiplications whose gradients reach nothing but what was dropped; none of a step left out
        as a whole, as by a gradient scaler after an overflow."""
        if not self.used:
            return 0.0
        return sum(work for reached, work in self.work.items() if reached and reached <= self.dropped)


class _Passes:
    """The backward passes of the present sampled step."""

    walked: tuple[_Pass, ...] = ()
    count = 0
    walks = 0  # in all sampled steps
    told = False


@without_overrides
def before_backward(losses: Any) -> None:
    """At a sampled step, before gradients are added: see which are gone, then walk the next graph."""
    if _Passes.told or not losses or dispatching() or len(optimizers.known()) < 2:
        return
    for one in _Passes.walked:
        for key, tensor in list(one.waiting.items()):
            if getattr(tensor(), "grad", one) is None:
                del one.waiting[key]
                one.dropped.add(key)
    _Passes.count += 1
    if len(_Passes.walked) < LOOKS:
        _Passes.walks += 1
        _Passes.told = _Passes.walks >= WALKS_AT_MOST
        _Passes.walked += (_walk(losses[0]),)
    elif _Passes.count >= LOOKS + PATIENCE:
        _tell()


@quiet
def stepped(optimizer: Any) -> None:
    """It used what the passes before it gave its tensors."""
    for one in _Passes.walked:
        one.used |= one.waiting.pop(id(optimizer), None) is not None


def look_away() -> None:
    """The sampled step is over: what happens to gradients from here on is not seen."""
    _Passes.walked, _Passes.count = (), 0


def _walk(loss: Any) -> _Pass:
    tensors = {id(one): optimizers.tensors(one) for one in optimizers.known()}
    work, leaves = work_behind(loss, {key: {id(one) for one in mine} for key, mine in tensors.items()})
    first = {key: next((one for one in mine if id(one) in leaves), None) for key, mine in tensors.items()}
    return _Pass(work, {key: weakref.ref(one) for key, one in first.items() if one is not None})


def _tell() -> None:
    _Passes.told = True
    whole = sum(sum(one.work.values()) for one in _Passes.walked)
    dropped = sum(one.dropped_work() for one in _Passes.walked)
    state.writer.fact(fact="dropped", share=dropped / whole if whole else 0.0)
    look_away()
