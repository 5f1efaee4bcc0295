"""Runs a callback when the user imports a module; never imports one itself."""

from __future__ import annotations

import sys

from .guard import quiet, undo
from .hints import Any, Callable, ModuleSpec, ModuleType, Sequence, Table

before_search: list[Callable[[], object]] = []  # called before a module is looked for that was not there yet


class Finder:
    """A meta path finder that finds nothing itself: it lets the others find, and notes an import's end."""

    def __init__(self) -> None:
        self.callbacks: dict[str, list[Callable[[Any], Any]]] = {}
        self.first: dict[str, Callable[[], object]] = {}
        self.asking: set[str] = set()

    def add(self, *tables: Table) -> None:
        """Register ``{module name: callback(module)}`` of every table; a module already there is called back
        at once. What fails in one callback does not keep the others."""
        for table in tables:
            for name, callback in table.items():
                self.callbacks.setdefault(name, []).append(quiet(callback))
        for table in tables:
            for name, callback in table.items():
                if name in sys.modules:
                    quiet(callback)(sys.modules[name])
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
            undo.append(lambda: sys.meta_path.remove(self))

    def before(self, name: str, call: Callable[[], object]) -> None:
        """Call once before a module is looked for; at once where it is there."""
        if name in sys.modules:
            call()
        else:
            self.first[name] = call

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Let the finders after us find ``name``; have its loader call back when the module is complete."""
        for callback in before_search:
            callback()
        if name in self.first:
            quiet(self.first.pop(name))()
        if name not in self.callbacks or name in self.asking:
            return None
        self.asking.add(name)
        try:
            spec = _found(name, path, target, self)
        finally:
            self.asking.discard(name)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            _listen(spec.loader, self.callbacks[name])
        return spec


finder = Finder()


def _found(
    name: str, path: Sequence[str] | None, target: ModuleType | None, ourselves: Finder
) -> ModuleSpec | None:
    for other in sys.meta_path:
        find = getattr(other, "find_spec", None)
        if other is ourselves or find is None:
            continue
        spec: ModuleSpec | None = find(name, path, target)
        if spec is not None:
            return spec
    return None


def _listen(loader: Any, callbacks: list[Callable[[Any], Any]]) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        try:
            del loader.exec_module  # the loader is as it was before the user's code runs
        except AttributeError:
            pass
        execute(module)
        for callback in callbacks:
            callback(module)

    try:
        loader.exec_module = exec_module
    except AttributeError:  # a loader with slots: this module goes unwatched
        pass
