"""Times fetches where batches are made, in workers or in the loop, and looks at what is in a batch."""

from __future__ import annotations

import os
import sys
from itertools import islice
from threading import get_ident, get_native_id
from time import monotonic_ns as now
from time import process_time_ns, thread_time_ns
from zlib import crc32

from . import clocks, input_ops, wire
from .guard import quiet, replace
from .hints import TYPE_CHECKING, Any, Callable, Iterator
from .state import state
from .transforms import close_watch, open_watch

if TYPE_CHECKING:
    Readings = tuple[int, tuple[int, int, int], tuple[int, int, int]]

PARTS_AT_MOST = 4096
DEPTH_AT_MOST = 4


def leaves(thing: Any, depth: int = 0) -> Iterator[Any]:
    """The leaves of nested lists, tuples and dictionaries."""
    if isinstance(thing, (list, tuple)) and depth < DEPTH_AT_MOST:
        for part in thing:
            yield from leaves(part, depth + 1)
    elif isinstance(thing, dict) and depth < DEPTH_AT_MOST:
        for part in thing.values():
            yield from leaves(part, depth + 1)
    else:
        yield thing


def cargo(batch: Any) -> tuple[int, int, int, int]:
    """(tensors, bytes in tensors, bytes in anything else with a size, bytes of an element of the largest
    tensor)."""
    tensors = tensor_bytes = other = largest = element = 0
    for count, leaf in enumerate(leaves(batch)):
        if count >= PARTS_AT_MOST:
            break
        if hasattr(leaf, "untyped_storage"):
            tensors += 1
            size = leaf.numel() * leaf.element_size()
            tensor_bytes += size
            if size > largest:
                largest, element = size, leaf.element_size()
        else:
            other += getattr(leaf, "nbytes", 0) or (len(leaf) if isinstance(leaf, (bytes, str)) else 0)
    return tensors, tensor_bytes, other, element


def view(sample: Any) -> Iterator[memoryview]:
    """Byte views of the arrays, tensors and texts in a sample; empty for what cannot be viewed."""
    for count, leaf in enumerate(leaves(sample)):
        if count >= 64:
            break
        if isinstance(leaf, bytes):
            yield memoryview(leaf)
        elif isinstance(leaf, str):
            yield memoryview(leaf.encode("utf-8", "replace"))
        elif hasattr(leaf, "untyped_storage"):
            if leaf.device.type == "cpu" and leaf.is_contiguous() and leaf.numel():
                yield memoryview(leaf.detach().view(-1).numpy()).cast("B")
        elif hasattr(leaf, "__array_interface__") and getattr(leaf, "size", False):
            yield memoryview(leaf).cast("B") if leaf.flags.c_contiguous else memoryview(leaf.tobytes())


ROWS_AT_MOST = 64
COLUMNS_AT_MOST = 4096
COLUMNS_AT_LEAST = 8
NUMBERS_AT_MOST = 1 << 18  # of feature vectors, that are compared with zero: 0.1 to 0.2 ms
ELSEWHERE = 0.01  # share of real places that hold the same number: above it, it is no padding


def padding(leaves: Any) -> tuple[int, int]:
    """(places, of these padding) in the first tensor that looks like rows of tokens, or of feature vectors;
    (0, 0) without any."""
    for leaf in leaves:
        if hasattr(leaf, "untyped_storage"):
            tokens = _is_tokens(leaf)
            rows = leaf[:ROWS_AT_MOST] if tokens else _vectors(leaf)
            if rows is not None:
                sides = (rows, rows.flip(1))
                runs = [_run(side, side[:, -1].mode().values if tokens else 0) for side in sides]
                return rows.numel(), max(runs)
    return 0, 0


def _vectors(leaf: Any) -> Any:
    """Of vectors of floats, by row and place: 0 = all zero, 1 = any other; None where there are no such."""
    if leaf.dim() != 3 or not leaf.is_floating_point() or leaf.device.type != "cpu" or len(leaf) < 2:
        return None
    if not COLUMNS_AT_LEAST <= leaf.shape[1] <= COLUMNS_AT_MOST or not leaf.shape[2]:
        return None
    rows = min(ROWS_AT_MOST, NUMBERS_AT_MOST // (leaf.shape[1] * leaf.shape[2]))
    return (leaf[:rows] != 0).any(2).long() if rows > 1 else None


def _is_tokens(leaf: Any) -> bool:
    whole = str(leaf.dtype) in ("torch.int64", "torch.int32") and leaf.device.type == "cpu"
    if not whole or leaf.dim() != 2 or len(leaf) < 2:
        return False
    fits = COLUMNS_AT_LEAST <= leaf.shape[1] <= COLUMNS_AT_MOST
    return fits and int(leaf[:ROWS_AT_MOST].max()) > 1  # zeros and ones are a mask, or labels


def _run(rows: Any, filler: Any) -> int:
    """Places at the rows' ends that hold the filler, which stands nowhere else to speak of."""
    real = (rows != filler).flip(1).cumsum(1).flip(1) > 0  # something real stands here or further on
    inside = int((real & (rows == filler)).sum())
    count = int(real.sum())
    return rows.numel() - count if inside <= ELSEWHERE * max(count, 1) else 0


TRANSFORMS_EVERY = 4  # close fetches between two whose transforms are timed
FIRST_BATCHES = 8  # of an iterable data set in each worker, to see whether two workers give the same
_names: dict[str, int] = {}


def begin_batch(dataset: Any, fetches: int) -> None:
    """A fetch is about to be looked at."""
    state.unpack_ns = state.unpacked = 0
    close_watch()  # a fetch that failed has left it open
    if fetches % TRANSFORMS_EVERY == 0:
        open_watch(dataset)


@quiet
def end(start: int, thing: int, place: int, iterates: bool, data: Any) -> None:
    """It is over; ``place`` counts the fetches of this process from 1."""
    if state.unpack_ns:
        state.row(wire.UNPACK, start, 0, state.unpack_ns, state.unpacked, thing=thing)
    for name, spent in close_watch().items():
        state.row(wire.TRANSFORM, start, 0, spent, _number(name), thing=thing)
    if iterates and state.worker and place <= FIRST_BATCHES:
        checksum = 0
        for part in view(data):
            checksum = crc32(part[: 1 << 16], checksum)
        state.row(wire.FIRST_BATCH, start, 0, checksum, place, thing=thing)


def _number(name: str) -> int:
    """A number for a transform's class, written out once per process."""
    number = _names.get(name)
    if number is None:
        number = _names[name] = len(_names) + 1
        state.writer.fact(fact="transform", number=number, name=name)
    return number


CARGO_EVERY = 16  # close fetches between two looks at what a batch is made of
LEAVES_AT_MOST = 64  # parts of a batch that are looked at for padding
WATCHED = 64  # dataset indices whose samples are compared across epochs
CLOSE_EVERY_NS = 2_000_000  # in a worker: fetches faster than this are looked at in turns


class Ledger:
    """What the fetches of this process have added up to."""

    fetches = 0
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
            quiet(watch_opens)()  # this process fetches for itself: it notes the files that fetches open
        original = type(fetcher).fetch
        fetcher.fetch = lambda index: _closely(original, fetcher, index)
    return fetcher


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
        data = original(self, possibly_batched_index)
        ledger.fetches += 1
        return data

    return fetch


def _closely(original: Callable[..., Any], fetcher: Any, index: Any) -> Any:
    begin = now()
    before = _readings()
    state.in_fetch, state.decode_ns, state.opens, ledger.collate = get_ident(), 0, 0, (0, 0)
    dataset, collate = fetcher.dataset, fetcher.collate_fn
    begin_batch(dataset, ledger.close)
    fetcher.dataset = _watched(fetcher, index) or dataset
    fetcher.collate_fn = _timed(collate)
    state.writer.post(wire.FETCHING, get_native_id())
    start, process, cpu = now(), process_time_ns(), thread_time_ns()
    try:
        data = original(fetcher, index)
    finally:
        taken, cpu, process = now() - start, thread_time_ns() - cpu, process_time_ns() - process
        state.in_fetch = 0
        state.writer.post(wire.FETCHING, 0)
        fetcher.dataset, fetcher.collate_fn = dataset, collate
    _write(before, (start, taken, cpu, process), index, data)
    iterates = hasattr(fetcher, "dataset_iter")
    end(start, _thing(), ledger.fetches, iterates, data)
    if iterates and ledger.fetches < FIRST_BATCHES:
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
    ledger.close += 1
    samples = len(index) if hasattr(index, "__len__") else 1
    thing = _thing()
    state.row(wire.FETCH, start, taken, cpu, queue, process, stored, faults[0] - before[1][0], thing)
    state.row(
        wire.BATCH, start, ledger.collate[0], ledger.collate[1], samples, read, faults[1] - before[1][1],
        state.decode_ns, thing,
    )  # fmt: skip
    mapped = faults[2] - before[1][2]
    state.row(wire.COUNT, start, 0, ledger.fetches, state.opens, calls, mapped, thing=thing)
    input_ops.note(start, thing)
    if ledger.close % CARGO_EVERY == 1:
        state.row(wire.CONTENT, start, 0, *cargo(data), thing=thing)
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
        start = now()
        sample = self.dataset[index]
        _note(self.thing, index, start, sample)
        return sample


@quiet
def _note(thing: int, index: int, start: int, sample: Any) -> None:
    taken = now() - start
    checksum, size = 0, 0
    for part in view(sample):
        size += part.nbytes
        checksum = crc32(part[: 1 << 16], checksum)
    if size:
        state.row(wire.SAMPLE, start, taken, index, checksum, size, thing=thing)


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


FILES_AT_MOST = 64  # names per process that are written down
_watching: list[bool] = []


def watch_opens() -> None:
    """Count files opened during fetches. An audit hook is invisible to the user's tracebacks."""
    if _watching:
        return
    _watching.append(True)
    seen: set[str] = set()
    direct = getattr(os, "O_DIRECT", 0)

    def heard(args: tuple[Any, ...]) -> None:
        try:
            if not state.in_fetch or get_ident() == state.feeder:  # which looks for a temporary folder
                return
            if isinstance(args[0], str) and not args[0].startswith(state.folder):
                state.opens += 1
                if len(seen) < FILES_AT_MOST and args[0] not in seen:
                    seen.add(args[0])
                    state.writer.fact(fact="file", path=args[0], direct=bool(args[2] & direct))
        except BaseException:
            pass

    known: Any = sys
    if not hasattr(known, "_bdoc_opens"):  # one for all times that we come: such a hook stays until the end
        hears = known._bdoc_opens = []
        sys.addaudithook(lambda event, args: [hear(args) for hear in hears] if event == "open" else None)
    known._bdoc_opens[:] = [heard]
