"""Times fetches where batches are made: in workers, or in the loop; and the transforms in a few of them.

Makes a loader's worker process known, and watches what it serialises and opens and how long it ends.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from threading import get_ident, get_native_id
from time import monotonic_ns as now
from time import process_time_ns, thread_time_ns

from . import clocks, input_ops, wire
from .batch_contents import checksum, padding, sizes
from .guard import attributes, from_signal, overheard, quiet, replace, uncounted, without_overrides
from .hints import Any, Callable, Iterator
from .state import state

TRANSFORMS_EVERY = 4  # sampled fetches for each one whose transforms are timed
FIRST_BATCHES = 8  # of an iterable data set in each worker, to see whether two workers give the same
CONTENTS_EVERY = 16  # sampled fetches for each one whose batch is described
WATCHED = 64  # dataset indices whose samples are compared across epochs
CLOSE_EVERY_NS = 2_000_000  # in a worker: of fetches faster than this only every n-th is sampled
FILES_AT_MOST = 64  # names per process that are written down


class _Process:
    """What the fetches of this process have added up to; ``skip`` = how many the next sample is away."""

    fetches = sampled = skip = 0
    collate = (0, 0)  # wall and CPU time of the latest
    transforms: dict[str, int] = {}  # noqa: RUF012  (numbers of classes, each written out once)
    hears_opens = False


def patch_worker(module: Any) -> None:
    """In a worker: every fetch goes through us. ``module`` is torch.utils.data._utils.fetch. What a forked
    worker inherits of its parent's counts is not its own."""
    _Process.fetches = _Process.sampled = _Process.skip = 0
    _Process.transforms = {}
    replace(module._MapDatasetFetcher, "fetch", _fetch)
    replace(module._IterableDatasetFetcher, "fetch", _fetch)


def open_fetch(iterator: Any) -> Any:
    """In the loop's own process: sample the next fetch of this iterator, and only that one."""
    fetcher = iterator.__dict__.get("_dataset_fetcher")
    if fetcher is not None and "fetch" not in fetcher.__dict__:
        if not _Process.sampled:
            quiet(watch_opens)()  # this process fetches for itself: it notes the files that fetches open
        fetcher.fetch = partial(_closely, type(fetcher).fetch, fetcher)
    return fetcher


def close_fetch(fetcher: Any) -> None:
    """The sample is over: restore the fetcher."""
    if fetcher is not None:
        fetcher.__dict__.pop("fetch", None)


def _fetch(original: Callable[..., Any]) -> Callable[..., Any]:
    def fetch(self: Any, possibly_batched_index: Any) -> Any:
        if _Process.skip <= 0:
            return _closely(original, self, possibly_batched_index)
        _Process.skip -= 1  # a worker samples every fetch, unless fetches are very fast
        data = original(self, possibly_batched_index)
        _Process.fetches += 1
        return data

    return fetch


@uncounted
def _closely(original: Callable[..., Any], fetcher: Any, index: Any) -> Any:
    begin = now()
    before = clocks.run_queue(), clocks.faults(), clocks.io_books(counting_itself=True)
    input_ops.reset()
    dataset, collate = fetcher.dataset, fetcher.collate_fn
    close_watch()  # a fetch that failed has left it open
    if _Process.sampled % TRANSFORMS_EVERY == 0:
        open_watch(dataset)
    watched, timed, ident = _watched(fetcher, index) or dataset, partial(_collate, collate), get_ident()
    state.writer.post(wire.FETCHING, get_native_id())
    start, process, cpu = now(), process_time_ns(), thread_time_ns()
    try:
        state.in_fetch, state.opens, _Process.collate = ident, 0, (0, 0)
        fetcher.dataset, fetcher.collate_fn = watched, timed
        data = original(fetcher, index)
    finally:
        taken, cpu, process = now() - start, thread_time_ns() - cpu, process_time_ns() - process
        state.in_fetch = 0
        _switch(False)
        state.writer.post(wire.FETCHING, 0)
        fetcher.dataset, fetcher.collate_fn = dataset, collate
    _write(before, (start, taken, cpu, process), index, data)
    iterates = hasattr(fetcher, "dataset_iter")
    _write_parts(start, iterates, data)
    if iterates and _Process.fetches < FIRST_BATCHES:
        _Process.skip = 0
    state.cost_ns += now() - begin - taken
    return data


@uncounted
def _collate(function: Callable[[Any], Any], samples: Any) -> Any:
    """Stands for the user's collate function during one fetch."""
    start, cpu = now(), thread_time_ns()
    batch = function(samples)
    _Process.collate = (now() - start, thread_time_ns() - cpu)
    return batch


def _thing() -> int:
    return state.inside.loader if state.inside is not None else 0


@quiet
def _write(
    before: tuple[int, tuple[int, int, int], tuple[int, int, int]],
    timing: tuple[int, int, int, int],
    index: Any,
    data: Any,
) -> None:
    start, taken, cpu, process = timing
    books, faults, queue = clocks.io_books(), clocks.faults(), clocks.run_queue()
    queue = queue - before[0] if queue != wire.NOTHING != before[0] else wire.NOTHING
    stored, read, calls = (
        late - early if late != wire.NOTHING != early else wire.NOTHING
        for late, early in zip(books, before[2])
    )
    major, system, mapped = (late - early for late, early in zip(faults, before[1]))
    _Process.fetches += 1
    _Process.sampled += 1
    samples = len(index) if hasattr(index, "__len__") else 1
    thing, (collate, collate_cpu) = _thing(), _Process.collate
    state.row(wire.FETCH, start, taken, cpu, queue, process, stored, major, thing)
    state.row(wire.BATCH, start, collate, collate_cpu, samples, read, system, input_ops.decoded.cpu_ns, thing)
    state.row(wire.COUNT, start, 0, _Process.fetches, state.opens, calls, mapped, thing=thing)
    input_ops.note(start, thing)
    if _Process.sampled % CONTENTS_EVERY == 1:
        _note_contents(start, thing, data)
    if state.worker:  # a sample takes 12 us: at most 1 % of the worker's time, and few rows
        fast = int(1_200_000 / max(taken, 1_000)) if taken < CLOSE_EVERY_NS else 0
        _Process.skip = max(fast, state.floor - 1)


@without_overrides
def _note_contents(start: int, thing: int, data: Any) -> None:
    if overheard():
        return
    state.row(wire.CONTENT, start, 0, *sizes(data), thing=thing)
    places, padded, beyond = padding(data)
    if places:
        state.row(wire.PADDING, start, 0, places, padded, beyond, thing=thing)


@without_overrides
def _write_parts(start: int, iterates: bool, data: Any) -> None:
    for name, spent in close_watch().items():
        number = _Process.transforms.get(name)
        if number is None:
            number = _Process.transforms[name] = len(_Process.transforms) + 1
            state.writer.fact(fact="transform", number=number, name=name)
        state.row(wire.TRANSFORM, start, 0, spent, number, thing=_thing())
    if iterates and state.worker and _Process.fetches <= FIRST_BATCHES:
        state.row(wire.FIRST_BATCH, start, 0, checksum(data)[0], _Process.fetches, thing=_thing())


class Watched:
    """Stands for the data set during one fetch, to recognise samples that come again."""

    def __init__(self, dataset: Any, stride: int, thing: int) -> None:
        self.dataset, self.stride, self.thing = dataset, stride, thing

    @uncounted
    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int or index % self.stride:  # a sampler may yield anything
            return self.dataset[index]
        start = now()
        sample = self.dataset[index]
        _note(self.thing, index, start, sample)
        return sample


@without_overrides
def _note(thing: int, index: int, start: int, sample: Any) -> None:
    taken = now() - start
    found, size = checksum(sample)
    if size:
        state.row(wire.SAMPLE, start, taken, index, found, size, thing=thing)


@quiet
def _watched(fetcher: Any, index: Any) -> Watched | None:
    """A stand-in for this fetch, when the batch holds one of the indices we follow; else None."""
    stride = _stride(fetcher) if type(index) is list else 0
    if not stride or not any(type(place) is int and not place % stride for place in index):
        return None
    return Watched(fetcher.dataset, stride, _thing())


def _stride(fetcher: Any) -> int:
    """One in so many indices is followed; 0, none, unless it is sure that torch asks the data set for single
    samples, and not by ``__getitems__``."""
    stride: int | None = fetcher.__dict__.get("_bdoc_stride")
    if stride is None:
        stride = fetcher._bdoc_stride = 0
        kind: Any = type(fetcher.dataset)
        plain = kind.__getattribute__ is object.__getattribute__ and not hasattr(kind, "__getattr__")
        by_batch = hasattr(kind, "__getitems__") or "__getitems__" in attributes(fetcher.dataset)
        map_style = fetcher.auto_collation and not hasattr(fetcher, "dataset_iter")
        if plain and map_style and not by_batch:
            stride = fetcher._bdoc_stride = max(1, -(-len(fetcher.dataset) // WATCHED))
    return stride


def watch_opens() -> None:
    """Count files opened during fetches. An audit hook is invisible to the user's tracebacks."""
    if _Process.hears_opens:
        return
    _Process.hears_opens = True
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
        except Exception as error:
            if from_signal(error):
                raise

    known: Any = sys
    if not hasattr(known, "_bdoc_opens"):  # one for all times that we come: such a hook stays until the end
        hears = known._bdoc_opens = []
        sys.addaudithook(lambda event, args: [hear(args) for hear in hears] if event == "open" else None)
    known._bdoc_opens[:] = [heard]


STOP_NS = 1_000_000  # what takes less is not worth a row


def patch_worker_loop(module: Any) -> None:
    """``module`` is torch.utils.data._utils.worker, or torchdata's: the same arguments and more."""
    replace(module, "_worker_loop", _life)


def stops(original: Callable[..., Any]) -> Callable[..., Any]:
    """Times how long an iterator takes to end its workers."""
    clock, note = now, _stopped  # an iterator may be freed when this module's names are gone

    def _shutdown_workers(self: Any) -> None:
        start = clock()
        try:
            original(self)
        finally:
            note(self, start)

    return _shutdown_workers


@quiet
def _stopped(iterator: Any, start: int) -> None:
    taken = now() - start
    if taken >= STOP_NS:
        account = iterator.__dict__.get("_bdoc")
        thing = account.loader if account is not None else 0
        state.row(wire.STOPPED_WORKERS, start, taken, thing=thing, thread=state.thread())


def _life(original: Callable[..., Any]) -> Callable[..., Any]:
    def _worker_loop(*args: Any, **kwargs: Any) -> Any:
        _born(args)
        return original(*args, **kwargs)

    return _worker_loop


@quiet
def _born(args: tuple[Any, ...]) -> None:
    pickler: Any = sys.modules["multiprocessing.reduction"].ForkingPickler
    state.worker = True
    state.writer.fact(fact="worker", worker=args[10])
    original = pickler.__dict__["dumps"].__func__
    pickler.dumps = classmethod(_timed_dumps(original))
    fetch = sys.modules.get("torch.utils.data._utils.fetch")
    if fetch is not None:
        patch_worker(fetch)
    watch_opens()


def _timed_dumps(original: Callable[..., Any]) -> Callable[..., Any]:
    """Runs in the queue's feeder thread, the only place where a batch is really serialised."""

    def dumps(cls: Any, obj: Any, protocol: int | None = None) -> Any:
        state.feeder = get_ident()
        start, cpu = now(), thread_time_ns()
        data = original(cls, obj, protocol)
        _pickled(start, cpu, len(data))
        return data

    return dumps


_batches = [0]


@quiet
def _pickled(start: int, cpu: int, size: int) -> None:
    _batches[0] += 1
    if _batches[0] % state.floor:
        return
    state.row(wire.PICKLE, start, now() - start, thread_time_ns() - cpu, size, thread=state.thread())


TRANSFORM_NAMES = ("transform", "augment", "aug")  # what data sets call them
TRANSFORM_DEPTH = 4
TRANSFORM_CLASSES = 32


class TransformTimes:
    """``open`` during a fetch that is timed; ``spent`` is CPU time by class name, outermost calls only."""

    open = False
    inside = False
    seen = False
    calls: list[tuple[type, str, Any, Any]] = []  # noqa: RUF012  (class, name, its own function, wrapper)
    spent: dict[str, int] = {}  # noqa: RUF012  (one watch per process)


transform_times = TransformTimes()


@quiet
def open_watch(dataset: Any) -> None:
    """From now on calls count. The classes are found once per process."""
    if not transform_times.seen:
        transform_times.seen = True
        for count, thing in enumerate(_transforms(dataset, 0)):
            if count >= TRANSFORM_CLASSES:
                break
            _patch_transform(thing)
    _switch(True)
    transform_times.spent = {}
    transform_times.open = True


def _switch(on: bool) -> None:
    """Wrappers stand in classes of the script's during a fetch only: cloudpickle and dill write a class of
    `__main__` with all its functions, which no process without the agent could read."""
    for owner, name, own, wrapper in transform_times.calls:
        if owner.__dict__.get(name) is (own if on else wrapper):
            setattr(owner, name, wrapper if on else own)


def close_watch() -> dict[str, int]:
    """CPU time by class since the watch was opened; nothing when it was not."""
    spent = transform_times.spent if transform_times.open else {}
    transform_times.open, transform_times.spent = False, {}
    return spent


def _transforms(dataset: Any, depth: int) -> Iterator[Any]:
    """The single steps of every transform that hangs on a data set, or on those below it."""
    for name, value in list(attributes(dataset).items()) if depth < TRANSFORM_DEPTH else ():
        if name in ("dataset", "datasets"):
            yield from _transforms(value[0] if type(value) in (list, tuple) and value else value, depth + 1)
        elif any(part in name.lower() for part in TRANSFORM_NAMES) or _steps(value):
            several = value[:TRANSFORM_CLASSES] if type(value) in (list, tuple) else (value,)
            for one in several:
                yield from _unrolled(one, 0)


def _unrolled(thing: Any, depth: int) -> Iterator[Any]:
    steps = _steps(thing)
    if not steps or depth >= TRANSFORM_DEPTH:
        yield thing
        return
    for step in steps:
        yield from _unrolled(step, depth + 1)


def _steps(thing: Any) -> list[Any]:
    """What a Compose or a Sequential, or anything shaped like them, is made of."""
    if issubclass(type(thing), (list, tuple, dict, str, type)):
        return []
    inner = attributes(thing).get("transforms")
    if isinstance(inner, (list, tuple)) and all(callable(step) for step in inner):
        return list(inner)
    if type(thing).__name__ == "Sequential":
        return list(attributes(thing).get("_modules", {}).values())
    single = attributes(thing).get("transform")  # torchvision's StandardTransform
    return [single] if callable(single) else []


def _patch_transform(thing: Any) -> None:
    """Time the class's own call; modules only in workers, since elsewhere they may be compiled."""
    module_like = "_modules" in attributes(thing)
    name = "forward" if module_like else "__call__"
    owner = next((kind for kind in type(thing).__mro__ if name in kind.__dict__), None)
    if owner is None or owner.__module__.startswith(("torch.nn", "builtins", "functools")):
        return
    own = owner.__dict__[name]
    if hasattr(own, "__code__") and not hasattr(own, "_bdoc_original") and (state.worker or not module_like):
        replace(owner, name, _timed_transform)
        transform_times.calls.append((owner, name, own, owner.__dict__[name]))


def _timed_transform(original: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not transform_times.open or transform_times.inside:
            return original(self, *args, **kwargs)
        start = thread_time_ns()
        transform_times.inside = True
        try:
            return original(self, *args, **kwargs)
        finally:
            transform_times.inside = False
            name = type(self).__name__
            transform_times.spent[name] = transform_times.spent.get(name, 0) + thread_time_ns() - start

    return call
