"""Times the opening of container files inside a fetch: HDF5, zip and npz, tar, Parquet."""

from __future__ import annotations

import os
from time import monotonic_ns as now
from time import thread_time_ns

from . import wire
from .guard import quiet, replace_each
from .pulse import state

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# module -> what reads a container's table of contents
CONTAINERS = {
    "zipfile": ("ZipFile.__init__",),
    "tarfile": ("TarFile.__init__", "TarFile.getmembers"),
    "h5py._hl.files": ("File.__init__",),
    "tables.file": ("File.__init__",),
    "pyarrow.parquet.core": ("ParquetFile.__init__",),
}
UNHEARD = ("h5py._hl.files", "tables.file", "pyarrow.parquet.core")  # they open in C: no audit event says so
FILES_AT_MOST = 64


def watchers() -> dict[str, Callable[[Any], None]]:
    """``{module: callback}`` for every container that we know."""
    return {module: _patcher(names, _timed(module in UNHEARD)) for module, names in CONTAINERS.items()}


def _patcher(names: tuple[str, ...], build: Callable[[Any], Any]) -> Callable[[Any], None]:
    return lambda module: replace_each(module, names, build)


class Opened:
    """What the containers opened during this fetch have cost so far."""

    def __init__(self) -> None:
        self.depth = self.count = self.taken_ns = self.cpu_ns = 0
        self.files: set[str] = set()


opened = Opened()


def _timed(unheard: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def open_container(*args: Any, **kwargs: Any) -> Any:
            if not state.in_fetch or opened.depth or (unheard and not _named(args)):
                return original(*args, **kwargs)
            opened.depth = 1
            start, cpu = now(), thread_time_ns()
            try:
                return original(*args, **kwargs)
            finally:
                opened.depth = 0
                opened.count += 1
                opened.taken_ns += now() - start
                opened.cpu_ns += thread_time_ns() - cpu
                if unheard:
                    _say(args)

        return open_container

    return build


def _named(args: tuple[Any, ...]) -> bool:
    """Whether a file is opened: h5py builds the same object around one that is open already."""
    return len(args) > 1 and (isinstance(args[1], (str, bytes)) or hasattr(args[1], "__fspath__"))


@quiet
def _say(args: tuple[Any, ...]) -> None:
    """Stands for the open event that a library in C does not raise."""
    state.opens += 1
    path = os.fsdecode(args[1])
    if path not in opened.files and len(opened.files) < FILES_AT_MOST:
        opened.files.add(path)
        state.book.fact(fact="file", path=path, thing=state.inside.loader if state.inside else 0)


def note(start_ns: int, thing: int) -> None:
    """A fetch is over: write down what its containers cost, and begin anew."""
    if opened.count:
        state.row(wire.CONTAINER, start_ns, opened.taken_ns, opened.count, opened.cpu_ns, thing=thing)
    opened.count = opened.taken_ns = opened.cpu_ns = 0
