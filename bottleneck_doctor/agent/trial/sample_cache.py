"""Treatments that keep in memory what batches are made of: finished samples, decoded pictures, files.

What the user's fix does once, at the start, is done at the start here, too: before the first batch the
workers make every sample that the run's steps will use, each a part of them. So the steps that follow are
those of an epoch in which everything is kept, however few there are. Options of each treatment: ``where``;
``bytes`` that may be kept, of all processes together; ``warm`` (default true): make the samples before.
"""

from __future__ import annotations

import os
import random
import sys
from itertools import islice

from .. import wire
from ..hints import Any, Callable, Done, Iterable, Table
from ..input_ops import DECODERS
from ..loader_facts import start_method
from ..state import state
from .file_copies import Copies
from .hook_points import reason, reporter, together, wrap
from .loader import on_iterators
from .sample_store import Store, file_key, key_of, room

OWN = {"dataset", "_make", "_cache", "_ahead", "_pid"}  # all other attributes are the data set's
CACHE, COPIES = "_bdoc_cache", "_bdoc_copies"  # of a loader, for all of its iterators
PICTURES_AT_MOST = 1 << 22
COMPLETE = ("L", "RGB", "RGBA", "CMYK", "I", "F")  # Pillow's modes without a palette


class Cache:
    """A store that all processes share, and what is said of it; it keeps nothing before it is opened."""

    store: Store | None = None

    def __init__(self, done: Done) -> None:
        self.done = done

    def open(self, keys: int, options: dict[str, Any], unused: str) -> None:
        """Make room, which workers forked from now on share. Until something is found it is ``unused``."""
        if self.store is None:
            self.store = Store(keys, limit_bytes(options))
            self.done(unused)

    def has(self, key: int) -> bool:
        """Whether something is kept under this number."""
        return self.store is not None and self.store.has(key)

    def get(self, key: int | None) -> Any:
        """A copy of what is kept, in a tuple, or None."""
        found = self.store.get(key) if self.store is not None and key is not None else None
        if found is not None:
            self.done()
        return found

    def put(self, key: int | None, thing: Any) -> None:
        """Keep it; what cannot be kept is said once, and made anew each time."""
        try:
            if self.store is not None and key is not None and not self.store.put(key, thing):
                self.done("not everything found room in memory")
        except Exception as problem:
            self.done("it could not be kept: " + reason(problem))


def limit_bytes(options: dict[str, Any]) -> int:
    """Bytes that a treatment may keep."""
    return min(room(), int(options.get("bytes") or sys.maxsize))


class CachedDataset:
    """Stands for the data set where batches are made: ``make(index)`` makes a sample, ``ahead`` are those to
    be made before the first batch."""

    def __init__(self, dataset: Any, make: Callable[[Any], Any], cache: Cache, ahead: Iterable[int]) -> None:
        self.dataset, self._make, self._cache, self._ahead = dataset, make, cache, ahead
        self._pid = 0  # of the process that has made its part

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "dataset" not in self.__dict__:  # nor is it there while it is unpickled
            return object.__getattribute__(self, name)
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self.dataset, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _spawned, (self.dataset, self._cache.store, self._ahead)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._make_ahead()
        keeps = self._cache.store is not None and hasattr(index, "__index__") and int(index) >= 0
        key = int(index) if keeps else None
        kept = self._cache.get(key)
        if kept is not None:
            return kept[0]
        sample = self._make(index)
        self._cache.put(key, sample)
        return sample

    def _make_ahead(self) -> None:
        """Make this worker's part of the samples to come, leaving random numbers as they were."""
        worker = sys.modules["torch.utils.data"].get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker is not None else (0, 1)
        undo = keep_random()
        try:
            for place, index in enumerate(self._ahead):
                if place % step == first and not self._cache.has(index):
                    self._cache.put(index, self._make(index))
        finally:
            undo()


def _spawned(dataset: Any, store: Store | None, ahead: Iterable[int]) -> CachedDataset:
    """In a spawned worker, whose file of rows is another."""
    cache = Cache(reporter("cache"))
    cache.store = store
    return CachedDataset(dataset, dataset.__getitem__, cache, ahead)


def _stand_in(iterator: Any, cache: Cache, options: dict[str, Any], copies: Copies | None = None) -> None:
    """Have the iterator's batches made through the cache; its first may be waited for longer than any."""
    dataset = iterator._dataset  # that of another treatment, maybe
    ahead = wanted(iterator, len(dataset)) if options.get("warm", True) else ()
    if ahead is None:
        cache.done("not known which samples the steps will use: the sampler is not torch's")
    elif options.get("warm", True):
        iterator._timeout = 0
    make = dataset.__getitem__ if copies is None else copies.during(dataset.__getitem__)
    iterator._dataset = CachedDataset(dataset, make, cache, ahead or ())


def _asks_singly(iterator: Any) -> bool:
    return not iterator._dataset_kind and getattr(iterator._dataset, "__getitems__", None) is None


def cache(options: dict[str, Any], done: Done) -> Table:
    """Finished samples are made once, whoever of the workers asks for them. The data set must give the same
    sample each time; it is for whoever orders this to know that."""

    def swap(iterator: Any, loader: Any) -> None:
        if not _asks_singly(iterator):
            done("not a data set that is asked for one sample at a time")
            return
        samples = loader.__dict__.setdefault(CACHE, Cache(done))
        unused = "no sample was asked for a second time: the steps end before the second epoch"
        samples.open(len(iterator._dataset), options, unused)
        _stand_in(iterator, samples, options)

    return on_iterators(options, swap, done)


def preload(options: dict[str, Any], done: Done) -> Table:
    """Each file of the data set is copied when it is first read, and then read from the copy.

    For files that Python opens while a batch is made, by whichever function of its own; files that a library
    opens in C++, or the script before the first batch, stay where they are, and the trial says so.
    """

    def swap(iterator: Any, loader: Any) -> None:
        if not _asks_singly(iterator):
            done("not a data set that is asked for one sample at a time")
            return
        if start_method(loader) not in (None, "fork"):
            done("the workers are not forked")
            return
        copies = loader.__dict__.get(COPIES)
        if copies is None:
            share_bytes = limit_bytes(options) // max(1, iterator._num_workers)
            copies = loader.__dict__[COPIES] = Copies(share_bytes, done)
            copies.serve()
            done("no file was opened by Python while batches were made")
        _stand_in(iterator, Cache(done), options, copies)

    return on_iterators(options, swap, done)


def decoded(options: dict[str, Any], done: Done) -> Table:
    """Decoded pictures and sounds are kept: what comes after decoding, augmentation, stays random.

    For the decoders that agent/input_ops.py knows, called from Python with a path or with bytes; of Pillow,
    pictures opened by path, in modes whose pixels are all there is. ``where``: whose workers decode ahead.
    """
    pictures = Cache(done)

    def swap(iterator: Any, loader: Any) -> None:
        unused = "nothing was decoded a second time by a decoder that is known"
        pictures.open(PICTURES_AT_MOST, options, unused)
        if _asks_singly(iterator):
            _stand_in(iterator, Cache(done), options)

    def decode(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        key = _call_key(original.__qualname__, args, kwargs) if pictures.store is not None else None
        found = pictures.get(key)
        if found is not None:
            return found[0]
        result = original(*args, **kwargs)
        pictures.put(key, result)
        return result

    def load(original: Callable[..., Any], self: Any) -> Any:
        """Pillow's ``ImageFile.load``, which decodes the file that was opened before."""
        if pictures.store is None or not self.tile or self.mode not in COMPLETE:
            return original(self)
        asked = (self.size, self.mode, self.tile)
        key = _call_key("load", (self.filename,), {"asked": asked}) if self.filename else None
        found = pictures.get(key)
        if found is not None:
            self.load_prepare()
            _fill(self, found[0])
            return original(self)  # with no tile left to decode
        result = original(self)
        if (self.size, self.mode) == asked[:2]:
            pictures.put(key, self.tobytes())
        return result

    def patch(module: Any) -> None:
        for name in DECODERS[module.__name__]:
            if hasattr(module, name):
                wrap(module, name, decode)

    decoders = {name: patch for name, attributes in DECODERS.items() if "." not in attributes[0]}
    pillow = {"PIL.ImageFile": lambda module: wrap(module.ImageFile, "load", load)}
    return together(decoders, pillow, on_iterators(options, swap, done))


def _fill(picture: Any, pixels: bytes) -> None:
    """The decoded pixels, and the file closed, as decoding leaves it."""
    picture.tile = []
    picture.frombytes(pixels)
    if picture._exclusive_fp and picture._close_exclusive_fp_after_loading:
        picture.fp.close()
    picture.fp = None


def _call_key(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """A number for a decoder's call; None where what it decodes is not known from its arguments."""
    parts: list[Any] = [name.encode()]
    for one in (*args, *(part for item in sorted(kwargs.items()) for part in item)):
        if isinstance(one, (str, os.PathLike)) and os.path.isfile(one):
            parts.append(file_key(os.fspath(one), os.stat(one)))
        elif isinstance(one, bytes):
            parts.append(one)
        elif hasattr(one, "__array__") and getattr(one, "ndim", 0) == 1:
            parts.append(memoryview(one.numpy() if hasattr(one, "numpy") else one).cast("B"))
        elif (
            one is None or isinstance(one, (bool, int, float, str, tuple, list)) or hasattr(type(one), "name")
        ):
            parts.append(repr(one).encode())
        else:
            return None
    return key_of(*parts)


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
