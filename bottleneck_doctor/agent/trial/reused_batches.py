"""The ceiling of every remedy for input: the loop is fed its first batches again and again, from memory.

The training's loader gives ``BATCHES`` of them as ever, and is then left alone: its workers end, epochs keep
their length. What is measured after that is the training without input. Other loaders, those of evaluation,
stay as they are. A function that was named as a source of batches (``--data-fn``) is treated alike.

Batches are handed out in fresh containers, since scripts take keys out of them, and as fresh copies where
the script was seen to write into their tensors. The answer is of a training whose batches cost as much to
compute as the first ``BATCHES`` did on average: an epoch that is sorted by length is not.
"""

from __future__ import annotations

import copy
import sys
import weakref

from .. import data_fn
from ..batch_contents import leaves, sizes
from ..hints import Any, Callable, Done, Table
from ..loader import number_of
from ..state import state
from .hook_points import LOADER, opened, reason, wrap

BATCHES = 16  # enough to be like all others, and over before steps are measured
BATCHES_AT_LEAST = 8  # of large ones
IN_HAND = 2  # batches that a loop holds: the one it trains on, and one ahead
BYTES = 512 << 20  # after which those must do
BYTES_AT_MOST = 2 << 30  # and after which however many there are must do
NO_LENGTH = "how many batches an epoch has is not known, and the run has no limit"


class Tape:
    """What one source of batches has given, and whether it is given again now."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.given: list[Given] = []  # the last ones, which the script may be writing into
        self.written = False  # it was seen to do so: then all are handed out as copies
        self.bytes = 0
        self.turn = 0
        self.playing = False
        self.length: int | None = None  # of an epoch that was seen to its end

    def record(self, batch: Any) -> None:
        """Keep a copy of a batch that the loop is about to be given."""
        if self.full():
            return
        self.kept.append(copied(batch))
        _, tensor_bytes, other_bytes, _ = sizes(batch)
        self.bytes += tensor_bytes + other_bytes
        self.given.append(Given(batch))
        if len(self.given) > IN_HAND:
            self.written = self.given.pop(0).written() or self.written

    def full(self) -> bool:
        """Whether enough is kept."""
        count = len(self.kept)
        enough = count >= BATCHES or (count >= BATCHES_AT_LEAST and self.bytes >= BYTES)
        return enough or self.bytes >= BYTES_AT_MOST

    def play(self) -> Any:
        """The next batch."""
        while self.given:
            self.written = self.given.pop().written() or self.written
        batch = self.kept[self.turn % len(self.kept)]
        self.turn += 1
        return copied(batch) if self.written else repacked(batch)


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
        _record(tape, batch, done)
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

    data_fn.below.append(lambda function: _repeating(function, done))
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


def _record(tape: Tape, batch: Any, done: Done) -> None:
    try:
        tape.record(batch)
    except Exception as problem:  # a batch of a class that cannot be copied
        done("a batch could not be kept: " + reason(problem))


def _is_trained_on(iterator: Any) -> bool:
    """Whether the training loop is fed by it, as far as the hooks that measure know. They follow the thread
    that trains: of a loader that another thread asks, they only know that it is the only one."""
    loader = iterator._bdoc_loader
    if state.trained_on:
        return bool(state.trained_on == number_of(loader))
    return state.backwards >= BATCHES_AT_LEAST and sum(bool(tape.kept) for tape in _tapes.values()) == 1


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


def _repeating(function: Callable[..., Any], done: Done) -> Callable[..., Any]:
    """A source of batches that is called: each text it may be called with, as "train", has a tape of its own,
    and calls without gradients, in evaluation, go through."""
    torch: Any = sys.modules["torch"]
    tapes: dict[Any, Tape] = {}

    def fetch(*args: Any, **kwargs: Any) -> Any:
        way = tuple(one for one in (*args, *kwargs.values()) if isinstance(one, str))
        tape = tapes.setdefault(way, Tape())
        if not torch.is_grad_enabled() or len(tapes) > BATCHES:
            return function(*args, **kwargs)
        if tape.full():
            done()
            return tape.play()
        batch = function(*args, **kwargs)
        _record(tape, batch, done)
        return batch

    return fetch


def tensors_of(batch: Any) -> list[Any]:
    """The tensors in nested containers, and in an object of a library's own class."""
    return [leaf for leaf in leaves(opened(batch)) if hasattr(leaf, "untyped_storage")]


class Given:
    """A batch as the script was given it, to see later whether it wrote into the tensors."""

    def __init__(self, batch: Any) -> None:
        self.tensors = [(tensor, tensor._version) for tensor in tensors_of(batch)]

    def written(self) -> bool:
        """Whether it did, by torch's own count."""
        return any(tensor._version != version for tensor, version in self.tensors)


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
