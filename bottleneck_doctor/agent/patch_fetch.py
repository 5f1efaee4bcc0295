"""Times the making of a batch, in a worker or in the loop's own process: fetch, collate, samples, payload."""

from __future__ import annotations

from itertools import islice
from threading import get_ident, get_native_id
from time import monotonic_ns as now
from time import process_time_ns, thread_time_ns
from zlib import crc32

from . import clocks, input_ops, making, wire
from .guard import quiet, replace
from .padding import padding
from .payload import cargo, leaves, view
from .pulse import state
from .types import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    Readings = tuple[int, tuple[int, int, int], tuple[int, int, int]]

CARGO_EVERY = 16  # close fetches between two looks at what a batch is made of
LEAVES_AT_MOST = 64  # parts of a batch that are looked at for padding
WATCHED = 64  # dataset indices whose samples are compared across epochs
CLOSE_EVERY_NS = 2_000_000  # in a worker: fetches faster than this are looked at in turns


class Ledger:
    """What the fetches of this process have added up to."""

    fetches = 0
    total_ns = 0
    close = 0
    skip = 0
    collate = (0, 0)


ledger = Ledger()


def patch_worker(module: Any) -> None:
    """In a worker: every fetch goes through us. ``module`` is torch.utils.data._utils.fetch."""
    replace(module._MapDatasetFetcher, "fetch", _fetch)
    replace(module._IterableDatasetFetcher, "fetch", _fetch)


def open_fetch(iterator: Any) -> Any:
    """In the loop's own process: the next fetch of this iterator is looked at, and only that one."""
    fetcher = iterator.__dict__.get("_dataset_fetcher")
    if fetcher is not None and "fetch" not in fetcher.__dict__:
        if not ledger.close:
            _watch_opens()
        original = type(fetcher).fetch
        fetcher.fetch = lambda index: _closely(original, fetcher, index)
    return fetcher


@quiet
def _watch_opens() -> None:
    """This process fetches for itself: from now on it notes the files that fetches open."""
    from .patch_worker import watch_opens

    watch_opens()


def close_fetch(fetcher: Any) -> None:
    """The look is over; the fetcher is as it was."""
    if fetcher is not None:
        fetcher.__dict__.pop("fetch", None)


def _timed(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Stands for the user's collate function during one fetch."""

    def collate(samples: Any) -> Any:
        start, cpu = now(), thread_time_ns()
        batch = function(samples)
        ledger.collate = (now() - start, thread_time_ns() - cpu)
        return batch

    return collate


def _fetch(original: Callable[..., Any]) -> Callable[..., Any]:
    def fetch(self: Any, possibly_batched_index: Any) -> Any:
        if ledger.skip <= 0:
            return _closely(original, self, possibly_batched_index)
        ledger.skip -= 1  # a worker looks at every fetch, unless fetches are very fast
        start = now()
        data = original(self, possibly_batched_index)
        ledger.fetches += 1
        ledger.total_ns += now() - start
        return data

    return fetch


def _closely(original: Callable[..., Any], fetcher: Any, index: Any) -> Any:
    begin = now()
    before = _readings()
    state.in_fetch, state.decode_ns, state.opens, ledger.collate = get_ident(), 0, 0, (0, 0)
    dataset, collate = fetcher.dataset, fetcher.collate_fn
    making.begin(dataset, ledger.close)
    fetcher.dataset = _watched(fetcher, index) or dataset
    fetcher.collate_fn = _timed(collate)
    state.book.post(wire.FETCHING, get_native_id())
    start, process, cpu = now(), process_time_ns(), thread_time_ns()
    try:
        data = original(fetcher, index)
    finally:
        taken, cpu, process = now() - start, thread_time_ns() - cpu, process_time_ns() - process
        state.in_fetch = 0
        state.book.post(wire.FETCHING, 0)
        fetcher.dataset, fetcher.collate_fn = dataset, collate
    _write(before, (start, taken, cpu, process), index, data)
    iterates = hasattr(fetcher, "dataset_iter")
    making.end(start, _thing(), ledger.fetches, iterates, data)
    if iterates and ledger.fetches < making.FIRST_BATCHES:
        ledger.skip = 0
    state.cost_ns += now() - begin - taken
    return data


def _thing() -> int:
    return state.inside.loader if state.inside is not None else 0


def _readings() -> Readings:
    """The kernel's books, the one that counts its own reading last."""
    return clocks.run_queue(), clocks.faults(), clocks.io_books(counting_itself=True)


@quiet
def _write(before: Readings, timing: tuple[int, int, int, int], index: Any, data: Any) -> None:
    start, taken, cpu, process = timing
    books, faults, queue = clocks.io_books(), clocks.faults(), clocks.run_queue()
    queue = queue - before[0] if queue != wire.NOTHING != before[0] else wire.NOTHING
    stored, read, calls = (
        late - early if late != wire.NOTHING != early else wire.NOTHING
        for late, early in zip(books, before[2])
    )
    ledger.fetches += 1
    ledger.total_ns += taken
    ledger.close += 1
    samples = len(index) if hasattr(index, "__len__") else 1
    thing = _thing()
    state.row(wire.FETCH, start, taken, cpu, queue, process, stored, faults[0] - before[1][0], thing)
    state.row(
        wire.BATCH, start, ledger.collate[0], ledger.collate[1], samples, read, faults[1] - before[1][1],
        state.decode_ns, thing,
    )  # fmt: skip
    mapped = faults[2] - before[1][2]
    state.row(wire.COUNT, start, ledger.total_ns, ledger.fetches, state.opens, calls, mapped, 0, thing)
    input_ops.note(start, thing)
    if ledger.close % CARGO_EVERY == 1:
        state.row(wire.CARGO, start, 0, *cargo(data), thing=thing)
        _note_padding(start, thing, data)
    if state.worker:  # about 12 microseconds of ours: at most 1 % of the worker, and its file lasts
        fast = int(1_200_000 / max(taken, 1_000)) if taken < CLOSE_EVERY_NS else 0
        ledger.skip = max(fast, state.floor - 1)


@quiet
def _note_padding(start: int, thing: int, data: Any) -> None:
    places, padded = padding(islice(leaves(data), LEAVES_AT_MOST))
    if places:
        state.row(wire.PADDING, start, 0, places, padded, thing=thing)


class Watched:
    """Stands for the data set during one fetch, to recognise samples that come again."""

    def __init__(self, dataset: Any, stride: int, thing: int) -> None:
        self.dataset, self.stride, self.thing = dataset, stride, thing

    def __getitem__(self, index: int) -> Any:
        if index % self.stride:
            return self.dataset[index]
        start, cpu = now(), thread_time_ns()
        sample = self.dataset[index]
        _note(self.thing, index, start, cpu, sample)
        return sample


@quiet
def _note(thing: int, index: int, start: int, cpu: int, sample: Any) -> None:
    taken, cpu = now() - start, thread_time_ns() - cpu
    checksum, size = 0, 0
    for part in view(sample):
        size += part.nbytes
        checksum = crc32(part[: 1 << 16], checksum)
    if size:
        state.row(wire.SAMPLE, start, taken, index, checksum, size, cpu, 0, thing)


def _watched(fetcher: Any, index: Any) -> Watched | None:
    """A stand-in for this fetch, when the batch holds one of the indices we follow; else None."""
    try:
        stride = _stride(fetcher)
        if not stride or not isinstance(index, list) or not isinstance(index[0], int):
            return None
        if not any(place % stride == 0 for place in index):
            return None
        return Watched(fetcher.dataset, stride, _thing())
    except Exception:
        return None


def _stride(fetcher: Any) -> int:
    stride: int | None = fetcher.__dict__.get("_bdoc_stride")
    if stride is None:
        stride = 0
        map_style = fetcher.auto_collation and not hasattr(fetcher, "dataset_iter")
        if map_style and not getattr(fetcher.dataset, "__getitems__", None):
            stride = max(1, -(-len(fetcher.dataset) // WATCHED))
        fetcher._bdoc_stride = stride
    return stride
