"""Keeps finished samples in memory: each is made once, by one worker, and shared by all processes.

What the user's fix does once at the start is done at the start here as well: before the first batch the
workers make every sample that the run's steps will use, each a part of them. The steps that follow are then
those of an epoch in which everything is kept, however few there are.
"""

from __future__ import annotations

import fcntl
import io
import mmap
import os
import pickle
import random
import struct
import sys
from itertools import islice
from threading import Lock

from .. import wire
from ..hints import Any, Callable, Done, Iterable, Table
from ..state import state
from .hook_points import reason, reporter
from .loader import on_iterators

WORD = 8  # bytes of a number in the store
ALIGNED = 64  # bytes: arrays begin where vector instructions load fastest
OWN = {"dataset", "_store", "_ahead", "_pid", "_done"}  # CachedDataset's; others are the data set's
STORE = "_bdoc_store"  # of a loader, for all of its iterators
MEMORY_SHARE = 0.5  # of the memory that is available: the training needs the rest


class _Pickler(pickle.Pickler):
    """Leaves bytes of arrays and tensors out of the stream: a kept sample must cost no more than a copy."""

    def reducer_override(self, thing: Any) -> Any:
        torch: Any = sys.modules.get("torch")
        if torch is None or type(thing) is not torch.Tensor or not thing.numel():
            return NotImplemented  # NumPy's arrays do so themselves
        if thing.device.type != "cpu" or thing.layout is not torch.strided or thing.requires_grad:
            return NotImplemented
        flat = thing.resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8).numpy()
        return _tensor, (pickle.PickleBuffer(flat), str(thing.dtype).partition(".")[2], tuple(thing.shape))


def _tensor(data: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    torch: Any = sys.modules["torch"]
    return torch.frombuffer(data, dtype=getattr(torch, dtype)).view(shape)


def _aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


class Store:
    """Samples by number, below ``keys``, in ``limit_bytes`` of an anonymous file (memfd).

    Forked workers inherit it, spawned ones open it through /proc, and it ends with the last process that has
    it. Adding takes a lock. Reading takes none: a sample's place is written after the sample. What is handed
    out is a copy, so that a script may change it in place.
    """

    def __init__(self, keys: int, limit_bytes: int) -> None:
        self.keys, self.limit = keys, limit_bytes
        self.file = os.memfd_create("bdoc-samples", os.MFD_CLOEXEC)
        self._map()

    def _map(self) -> None:
        """First the bytes in use, then the place of each sample (0: none), then the samples."""
        self.begin = -(-WORD * (1 + self.keys) // mmap.PAGESIZE) * mmap.PAGESIZE
        os.ftruncate(self.file, self.begin + self.limit)
        self.lock = Lock()
        self.places = memoryview(mmap.mmap(self.file, self.begin)).cast("Q")
        self.data = memoryview(mmap.mmap(self.file, self.begin + self.limit, prot=mmap.PROT_READ))

    def __getstate__(self) -> tuple[int, int, str]:
        return self.keys, self.limit, "/proc/%d/fd/%d" % (os.getpid(), self.file)

    def __setstate__(self, state: tuple[int, int, str]) -> None:
        self.keys, self.limit, path = state
        self.file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._map()

    def has(self, key: int) -> bool:
        """Whether a sample is kept under this number."""
        return 0 <= key < self.keys and self.places[1 + key] > 0

    def get(self, key: int) -> tuple[Any] | None:
        """A copy of the sample, in a tuple; None where there is none."""
        if not self.has(key):
            return None
        at = self.places[1 + key]
        (count,) = struct.unpack_from("<Q", self.data, at)
        sizes = struct.unpack_from("<%dQ" % count, self.data, at + WORD)
        at += _aligned(WORD * (1 + count))
        parts = []
        for size in sizes:
            parts.append(bytearray(self.data[at : at + size]))
            at += _aligned(size)
        return (pickle.loads(parts[0], buffers=parts[1:]),)  # written by ourselves, in this run

    def put(self, key: int, sample: Any) -> bool:
        """Keep a copy; False where there is no room. Raises what pickle raises, and ``OSError``."""
        if not 0 <= key < self.keys:
            return False
        stream, buffers = io.BytesIO(), []  # type: tuple[io.BytesIO, list[pickle.PickleBuffer]]
        _Pickler(stream, 5, buffer_callback=buffers.append).dump(sample)
        parts: list[Any] = [stream.getvalue(), *(one.raw() for one in buffers)]
        sizes = [len(part) for part in parts]
        record = bytearray(struct.pack("<%dQ" % (1 + len(sizes)), len(sizes), *sizes))
        for part in (*parts, b""):
            record += bytes(-len(record) % ALIGNED)
            record += part
        with self.lock:
            fcntl.lockf(self.file, fcntl.LOCK_EX, WORD)
            try:
                filled = self.places[0]
                if not self.places[1 + key]:
                    if filled + len(record) > self.limit:
                        return False
                    # A write fails where a store to mapped memory would kill the process.
                    os.pwrite(self.file, record, self.begin + filled)
                    self.places[0] = filled + len(record)
                    self.places[1 + key] = self.begin + filled
                return True
            finally:
                fcntl.lockf(self.file, fcntl.LOCK_UN, WORD)


class CachedDataset:
    """Stands for the data set where batches are made; ``ahead`` are the samples to make before the first."""

    def __init__(self, dataset: Any, store: Store, ahead: Iterable[int], done: Done) -> None:
        self.dataset, self._store, self._ahead, self._done = dataset, store, ahead, done
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
        return _spawned, (self.dataset, self._store, self._ahead)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._make_ahead()
        key = int(index) if hasattr(index, "__index__") else -1
        kept = self._store.get(key)
        if kept is not None:
            self._done()
            return kept[0]
        sample = self.dataset[index]
        if key >= 0:
            self._keep(key, sample)
        return sample

    def _make_ahead(self) -> None:
        """Make this worker's part of the samples to come, leaving random numbers as they were."""
        worker = sys.modules["torch.utils.data"].get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker is not None else (0, 1)
        undo = keep_random()
        try:
            for index in islice(self._ahead, first, None, step):
                if not self._store.has(index):
                    self._keep(index, self.dataset[index])
        finally:
            undo()

    def _keep(self, key: int, sample: Any) -> None:
        """What cannot be kept is reported, and made anew each time."""
        try:
            if not self._store.put(key, sample):
                self._done("not everything found room in memory")
        except Exception as problem:
            self._done("it could not be kept: " + reason(problem))


def _spawned(dataset: Any, store: Store, ahead: Iterable[int]) -> CachedDataset:
    """In a spawned worker, which writes rows to a file of its own."""
    return CachedDataset(dataset, store, ahead, reporter("cache"))


def cache(options: dict[str, Any], done: Done) -> Table:
    """Finished samples are made once, whichever worker is asked for them. ``where``; ``bytes`` that may be
    kept, of all processes together.

    The data set must give the same sample each time; the one who orders this has to know that.
    """

    def swap(iterator: Any, loader: Any) -> None:
        dataset = iterator._dataset  # that of another treatment, maybe
        if iterator._dataset_kind or getattr(dataset, "__getitems__", None) is not None:
            done("not a data set that is asked for one sample at a time")
            return
        store = loader.__dict__.get(STORE)
        if store is None:
            with open("/proc/meminfo", encoding="ascii") as info:
                known = dict(line.split(":") for line in info)
            room = int(int(known["MemAvailable"].split()[0]) * 1024 * MEMORY_SHARE)
            limit_bytes = min(room, int(options.get("bytes") or sys.maxsize))
            store = loader.__dict__[STORE] = Store(len(dataset), limit_bytes)
            done("no sample was asked for a second time: the steps end before the second epoch")
        ahead = wanted(iterator, len(dataset))
        if ahead is None:
            done("not known which samples the steps will use: the sampler is not torch's")
        else:
            iterator._timeout = 0  # the first batch may be waited for longer than any
        iterator._dataset = CachedDataset(dataset, store, ahead or (), done)

    return on_iterators(options, swap, done)


# draw from a generator and change nothing else: one may draw from them and put the generator back
PURE = {
    "SequentialSampler",
    "RandomSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
    "DistributedSampler",
}
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
