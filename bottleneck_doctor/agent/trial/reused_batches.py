"""The ceiling of every remedy for input: the loop is fed its first batches again and again, from memory.

The training's loader gives ``BATCHES`` of them as ever, and is then left alone: its workers end, epochs keep
their length. What is measured after that is the training without input. Other loaders, those of evaluation,
stay as they are.

Batches are handed out in fresh containers, since scripts take keys out of them, and as fresh copies where
the script was seen to write into their tensors. The answer is of a training whose batches cost as much to
compute as the first ``BATCHES`` did on average: an epoch that is sorted by length is not.
"""

from __future__ import annotations

import copy
import sys
import weakref

from ..batch_contents import leaves, sizes
from ..hints import Any, Callable, Done, Table
from ..loader import number_of
from ..state import state
from .hook_points import LOADER, opened, reason, wrap

BATCHES = 16  # enough to be like all others, and over before steps are measured
BYTES = 1 << 30  # after which however many there are must do
IN_HAND = 2  # batches that a loop holds: the one it trains on, and one ahead
NO_LENGTH = "how many batches an epoch has is not known, and the run has no limit"


class Tape:
    """What one source of batches has given, and whether it is given again now."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        # The tensors of the last batches with torch's count of what was written into them.
        self.given: list[list[tuple[Any, int]]] = []
        self.written = False  # the script was seen to do so: then all are handed out as copies
        self.bytes = 0
        self.turn = 0
        self.playing = False
        self.length: int | None = None  # of an epoch that was seen to its end

    def record(self, batch: Any, done: Done) -> None:
        """Keep a copy of a batch that the loop is about to be given."""
        if self.full():
            return
        try:
            self.kept.append(copied(batch))
        except Exception as problem:  # a batch of a class that cannot be copied
            done("a batch could not be kept: " + reason(problem))
            return
        _, tensor_bytes, other_bytes, _ = sizes(batch)
        self.bytes += tensor_bytes + other_bytes
        self.given.append([(tensor, tensor._version) for tensor in tensors_of(batch)])
        self._look(IN_HAND)

    def full(self) -> bool:
        """Whether enough is kept."""
        return len(self.kept) >= BATCHES or self.bytes >= BYTES

    def play(self) -> Any:
        """The next batch."""
        self._look(0)
        batch = self.kept[self.turn % len(self.kept)]
        self.turn += 1
        return copied(batch) if self.written else repacked(batch)

    def _look(self, in_hand: int) -> None:
        """See whether the script wrote into batches, but for so many that it may still use."""
        while len(self.given) > in_hand:
            given = self.given.pop(0)
            self.written = self.written or any(tensor._version != count for tensor, count in given)


_ended: Any = iter(())  # its ``next`` raises StopIteration, as at an epoch's end
_tapes: weakref.WeakKeyDictionary[Any, Tape] = weakref.WeakKeyDictionary()


def replay(options: dict[str, Any], done: Done) -> Table:
    """No options: from the sixteenth batch on, the loop is fed from memory."""

    def _next_data(original: Callable[..., Any], self: Any) -> Any:
        tape = self.__dict__.get("_bdoc_tape")
        if tape is None:
            return original(self)
        if "_bdoc_length" in self.__dict__:
            return _from_memory(self)
        if tape.full() and _is_trained_on(self) and _begin(self, tape, done):
            return _from_memory(self)
        try:
            batch = original(self)
        except StopIteration:
            tape.length = self._num_yielded
            raise
        tape.record(batch, done)
        return batch

    def patch(module: Any) -> None:
        replaying = _replaying(module)

        def _get_iterator(original: Callable[..., Any], self: Any) -> Any:
            tape = _tapes.setdefault(self, Tape())
            if tape.playing:
                return replaying(self)
            iterator = original(self)
            iterator._bdoc_tape, iterator._bdoc_loader = tape, self  # made in the `for`: no other owner
            return iterator

        wrap(module.DataLoader, "_get_iterator", _get_iterator)
        for kind in (module._SingleProcessDataLoaderIter, module._MultiProcessingDataLoaderIter):
            wrap(kind, "_next_data", _next_data)

    return {LOADER: patch}


def _replaying(module: Any) -> Any:
    """The class of iterators that begin when all is on tape. To the script it is one of torch's."""

    class Replaying(module._BaseDataLoaderIter):  # type: ignore[misc]
        """An epoch from memory: samplers, workers and data sets are not asked."""

        _index_sampler = property(lambda self: (), lambda self, sampler: None)

        def __init__(self, loader: Any) -> None:
            super().__init__(loader)
            self._bdoc_tape, self._bdoc_length = _tapes[loader], _length(loader, _tapes[loader])

        def __len__(self) -> int:
            return self._bdoc_length or 0

        def _next_data(self) -> Any:
            return _from_memory(self)

    return Replaying


def _is_trained_on(iterator: Any) -> bool:
    """Whether the training loop is fed by it, as far as the hooks that measure know. They follow the thread
    that trains: of a loader that another thread asks, they only know that it is the only one."""
    loader = iterator._bdoc_loader
    if state.trained_on:
        return bool(state.trained_on == number_of(loader))
    return state.backwards >= BATCHES // 2 and sum(bool(tape.kept) for tape in _tapes.values()) == 1


def _begin(iterator: Any, tape: Tape, done: Done) -> bool:
    """From here on the tape plays; workers end now, and persistent ones do not come back."""
    loader = iterator._bdoc_loader
    length = _length(loader, tape)
    if length is None and not state.stop_at:
        done(NO_LENGTH)
        return False
    tape.playing = True
    iterator._bdoc_length = length
    if hasattr(iterator, "_shutdown_workers"):
        iterator._shutdown_workers()
    if loader.__dict__.get("_iterator") is iterator:
        loader._iterator = None
    done()
    return True


def _length(loader: Any, tape: Tape) -> int | None:
    """Batches of an epoch: as seen, or as the loader says, or None."""
    if tape.length is not None:
        return tape.length
    try:
        return len(loader)
    except (TypeError, NotImplementedError):  # an iterable does not know: only a limit of steps ends the run
        return None


def _from_memory(iterator: Any) -> Any:
    length = iterator._bdoc_length
    if length is not None and iterator._num_yielded >= length:
        return next(_ended)
    return iterator._bdoc_tape.play()


def tensors_of(batch: Any) -> list[Any]:
    """The tensors in nested containers, and in an object of a library's own class."""
    return [leaf for leaf in leaves(opened(batch)) if hasattr(leaf, "untyped_storage")]


def copied(batch: Any) -> Any:
    """The batch in memory of its own: not in a block shared with a worker, and pinned where it was."""
    torch: Any = sys.modules["torch"]

    def clone(tensor: Any) -> Any:
        if tensor.is_pinned():
            return torch.empty_like(tensor, pin_memory=True).copy_(tensor)
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)

    return copy.deepcopy(batch, {id(tensor): clone(tensor) for tensor in tensors_of(batch)})


def repacked(batch: Any) -> Any:
    """The same tensors in fresh containers."""
    return copy.deepcopy(batch, {id(tensor): tensor for tensor in tensors_of(batch)})
