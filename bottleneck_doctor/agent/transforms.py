"""Times the transforms of a data set, class by class, during a few of the sampled fetches."""

from __future__ import annotations

from time import thread_time_ns

from .guard import attributes, quiet, replace
from .hints import Any, Callable, Iterator
from .state import state

NAMES = ("transform", "augment", "aug")  # what data sets call them
DEPTH_AT_MOST = 4
CLASSES_AT_MOST = 32


class TransformTimes:
    """``open`` during a fetch that is timed; ``spent`` is CPU time by class name, outermost calls only."""

    open = False
    inside = False
    seen = False
    spent: dict[str, int] = {}  # noqa: RUF012  (one watch per process)


watch = TransformTimes()


@quiet
def open_watch(dataset: Any) -> None:
    """From now on calls count. The classes are found once per process."""
    if not watch.seen:
        watch.seen = True
        for count, thing in enumerate(_transforms(dataset, 0)):
            if count >= CLASSES_AT_MOST:
                break
            _patch(thing)
    watch.spent = {}
    watch.open = True


def close_watch() -> dict[str, int]:
    """CPU time by class since the watch was opened; nothing when it was not."""
    spent, watch.open, watch.spent = watch.spent if watch.open else {}, False, {}
    return spent


def _transforms(dataset: Any, depth: int) -> Iterator[Any]:
    """The single steps of every transform that hangs on a data set, or on those below it."""
    for name, value in list(attributes(dataset).items()) if depth < DEPTH_AT_MOST else ():
        if name in ("dataset", "datasets"):
            yield from _transforms(value[0] if type(value) in (list, tuple) and value else value, depth + 1)
        elif any(part in name.lower() for part in NAMES) or _steps(value):
            several = value[:CLASSES_AT_MOST] if type(value) in (list, tuple) else (value,)
            for one in several:
                yield from _unrolled(one, 0)


def _unrolled(thing: Any, depth: int) -> Iterator[Any]:
    steps = _steps(thing)
    if not steps or depth >= DEPTH_AT_MOST:
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


def _patch(thing: Any) -> None:
    """Time the class's own call; modules only in workers, since elsewhere they may be compiled."""
    module_like = "_modules" in attributes(thing)
    name = "forward" if module_like else "__call__"
    owner = next((kind for kind in type(thing).__mro__ if name in kind.__dict__), None)
    if owner is None or owner.__module__.startswith(("torch.nn", "builtins", "functools")):
        return
    if hasattr(owner.__dict__[name], "__code__") and (state.worker or not module_like):
        replace(owner, name, _timed)


def _timed(original: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not watch.open or watch.inside:
            return original(self, *args, **kwargs)
        watch.inside = True
        start = thread_time_ns()
        try:
            return original(self, *args, **kwargs)
        finally:
            watch.inside = False
            name = type(self).__name__
            watch.spent[name] = watch.spent.get(name, 0) + thread_time_ns() - start

    return call
