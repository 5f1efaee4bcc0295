"""Treatments that feed a loop from memory: batches that are given again, and samples that are made only once.

``replay`` is the ceiling of every remedy for input: the loop is fed its first batches again and again. The
training's loader gives ``BATCHES`` of them as ever, and is then left alone: its workers end, epochs keep
their length. What is measured after that is the training without input. Other loaders, those of evaluation,
stay as they are. Batches are handed out in fresh containers, since scripts take keys out of them, and as
fresh copies where the script was seen to write into their tensors. The answer is of a training whose batches
cost as much to compute as the first ``BATCHES`` did on average: an epoch that is sorted by length is not.

``cache`` keeps finished samples: each is made once, before the first batch, and all processes read it. What
the user's fix does once at the start is done at the start here as well: the samples that the run's steps will
use are made by as many workers as the loader has. The steps that follow are then those of an epoch in which
everything is kept, however few there are.
"""

from __future__ import annotations

import copy
import os
import pickle
import random
import sys
import weakref
from itertools import islice

from .. import wire
from ..batch_contents import leaves, sizes
from ..hints import Any, Callable, Done, Iterable, Table
from ..loader import number_of
from ..state import state
from .hook_points import LOADER, opened, reason, wrap
from .loader import as_it_is, on_iterators

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


KEPT = "_bdoc_kept"  # of a loader, for all of its iterators: {index: sample}
MEMORY_SHARE = 0.5  # of the memory that is available: the training needs the rest
NO_ROOM = "not everything found room in memory"


class CachedDataset:
    """Stands for the data set where batches are made. Forked workers share the memory of what is ``kept``,
    spawned ones get a copy each. Copies are handed out, so that a script may change them in place."""

    def __init__(self, dataset: Any, kept: dict[int, Any]) -> None:
        self.__dict__.update(dataset=dataset, kept=kept)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "dataset" not in self.__dict__:  # nor is it there while it is unpickled
            return object.__getattribute__(self, name)
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.dataset, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # As bytes: torch would open a file for each tensor that it hands to another process.
        return _unpacked, (self.dataset, pickle.dumps(self.kept))

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int) and index in self.kept:
            return copied(self.kept[index])
        return self.dataset[index]


def _unpacked(dataset: Any, kept: bytes) -> CachedDataset:
    return CachedDataset(dataset, pickle.loads(kept))  # written by the agent, in this run


def cache(options: dict[str, Any], done: Done) -> Table:
    """Finished samples are made once, whichever worker is asked for them. ``where``; ``bytes`` that may be
    kept.

    The data set must give the same sample each time; the one who orders this has to know that.
    """
    making: list[Any] = []  # the data set of the loader that makes samples ahead

    def swap(iterator: Any, loader: Any) -> None:
        dataset = iterator._dataset  # that of another treatment, maybe
        if making:
            return
        if iterator._dataset_kind or getattr(dataset, "__getitems__", None) is not None:
            done("not a data set that is asked for one sample at a time")
            return
        indices = wanted(iterator, len(dataset))
        if indices is None:
            done("not known which samples the steps will use: the sampler is not torch's")
            return
        kept: dict[int, Any] = loader.__dict__.setdefault(KEPT, {})
        missing = [index for index in dict.fromkeys(indices) if index not in kept]
        making.append(dataset)
        try:
            if missing and not _make(kept, missing, dataset, loader, options.get("bytes") or sys.maxsize):
                done(NO_ROOM)
        finally:
            making.clear()
        iterator._dataset = CachedDataset(dataset, kept)
        done()

    return on_iterators(options, swap, done)


def _make(kept: dict[int, Any], missing: list[int], dataset: Any, loader: Any, most_bytes: int) -> bool:
    """Make samples with a loader of our own, leaving random numbers as they were; whether all found room."""
    torch: Any = sys.modules["torch"]
    with open("/proc/meminfo", encoding="ascii") as info:
        known = dict(line.split(":") for line in info)
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "")  # on this machine, of which each keeps its own (torchrun)
    room = min(int(int(known["MemAvailable"].split()[0]) * 1024 * MEMORY_SHARE), most_bytes)
    room //= max(1, int(ranks)) if ranks.isdigit() else 1
    undo = keep_random()
    try:
        ahead = torch.utils.data.DataLoader(
            CachedDataset(dataset, {}), batch_size=None, sampler=missing, num_workers=loader.num_workers,
            collate_fn=as_it_is, worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
        )  # fmt: skip
        made = ahead._get_iterator()
        for index in missing:
            sample = copied(made._next_data())  # not as a step: the hooks that count them lie above
            _, tensor_bytes, other_bytes, _ = sizes(sample)
            room -= tensor_bytes + other_bytes or len(pickle.dumps(sample))
            if room < 0:
                return False
            kept[index] = sample
        return True
    finally:
        undo()


# draw from a generator and change nothing else: one may draw from them and put the generator back
PURE = "SequentialSampler RandomSampler SubsetRandomSampler WeightedRandomSampler DistributedSampler".split()
UNLIMITED = 1 << 32  # steps: no early end was asked for
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
