"""Tells gradients that are zeroed before they are used, as a generator's in its discriminator's step."""

from __future__ import annotations

import weakref

from . import optimizers
from .guard import quiet
from .hints import Any
from .state import state
from .torch_settings import work_behind

LOOKS = 8  # backward passes in a row whose graphs are walked: some rounds of all losses
PATIENCE = 8  # passes after them, in which what they gave is zeroed or used


class _Loss:
    """What was multiplied for a loss, by the optimizers whose tensors it reaches; of each of them a tensor
    whose gradient has neither been used nor zeroed yet."""

    def __init__(self, work: dict[frozenset[int], float], waiting: dict[int, Any]) -> None:
        self.work, self.waiting = work, waiting
        self.dropped: set[int] = set()

    def dropped_work(self) -> float:
        """Multiplications whose gradients reach nothing but what was dropped."""
        return sum(work for reached, work in self.work.items() if reached and reached <= self.dropped)


class _Watch:
    """The backward passes of the present close look."""

    losses: tuple[_Loss, ...] = ()
    passes = 0
    told = False


@quiet
def before_backward(losses: Any) -> None:
    """At a close look, before gradients are added: see which are gone, then walk the next graph."""
    if _Watch.told or not losses or optimizers.under_mode() or len(optimizers.known()) < 2:
        return
    for one in _Watch.losses:
        for key, tensor in list(one.waiting.items()):
            if getattr(tensor(), "grad", one) is None:
                del one.waiting[key]
                one.dropped.add(key)
    _Watch.passes += 1
    if len(_Watch.losses) < LOOKS:
        _Watch.losses += (_walk(losses[0]),)
    elif _Watch.passes >= LOOKS + PATIENCE:
        _tell()


@quiet
def stepped(optimizer: Any) -> None:
    """It used what the passes before it gave its tensors."""
    for one in _Watch.losses:
        one.waiting.pop(id(optimizer), None)


def look_away() -> None:
    """The close look is over: what happens to gradients now is not seen."""
    _Watch.losses, _Watch.passes = (), 0


def _walk(loss: Any) -> _Loss:
    tensors = {id(one): optimizers.tensors(one) for one in optimizers.known()}
    work, leaves = work_behind(loss, {key: {id(one) for one in mine} for key, mine in tensors.items()})
    first = {key: next((one for one in mine if id(one) in leaves), None) for key, mine in tensors.items()}
    return _Loss(work, {key: weakref.ref(one) for key, one in first.items() if one is not None})


def _tell() -> None:
    _Watch.told = True
    whole = sum(sum(one.work.values()) for one in _Watch.losses)
    dropped = sum(one.dropped_work() for one in _Watch.losses)
    state.writer.fact(fact="dropped", share=dropped / whole if whole else 0.0)
    look_away()
