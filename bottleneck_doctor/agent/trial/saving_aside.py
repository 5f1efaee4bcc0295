"""Copies what a checkpoint holds in the loop, and lets a thread write it. No options.

Only a file that is there already, and is written again, is written aside: a new one may be renamed or read
right after. The next checkpoint waits for the last one, and the process for the last of all.
"""

from __future__ import annotations

import copy
import os
import sys
import threading

from ..hints import Any, Callable, Done, Table
from .apply import wrap

PLAIN = (str, bytes, int, float, bool, type(None))


def watchers(options: dict[str, Any], done: Done) -> Table:
    """torch's own format, and the one of safetensors."""
    writer = _Writer(done)
    return {
        "torch.serialization": lambda module: wrap(module, "save", writer.saved),
        "safetensors.torch": lambda module: wrap(module, "save_file", writer.saved),
    }


class _Writer:
    """One thread at a time."""

    def __init__(self, done: Done) -> None:
        self.done = done
        self.thread: threading.Thread | None = None

    def saved(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Hands a copy on; what fails in the thread is written down."""

        def save(thing: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            again = isinstance(target, (str, os.PathLike)) and os.path.exists(target)
            if self.thread is not None:
                self.thread.join()
            if not again:
                return original(thing, target, *args, **kwargs)
            copied = _copy(thing, {})
            self.thread = threading.Thread(target=self._write, args=(original, copied, target, args, kwargs))
            self.thread.start()
            return None

        return save

    def _write(self, original: Callable[..., Any], thing: Any, target: Any, args: Any, kwargs: Any) -> None:
        try:
            original(thing, target, *args, **kwargs)
            self.done()
        except Exception as problem:
            self.done("%s: %s" % (type(problem).__name__, problem))


def _copy(thing: Any, known: dict[int, Any]) -> Any:
    """Tensors cloned, each once; containers of the usual kinds anew."""
    if isinstance(thing, PLAIN):
        return thing
    if id(thing) not in known:
        known[id(thing)] = _copied(thing, known)
    return known[id(thing)]


def _copied(thing: Any, known: dict[int, Any]) -> Any:
    kind = type(thing)
    if kind is sys.modules["torch"].Tensor:
        return thing.detach().clone()
    if kind in (list, tuple):
        return kind(_copy(one, known) for one in thing)
    if kind is dict:
        return {name: _copy(value, known) for name, value in thing.items()}
    if kind.__name__ == "OrderedDict":  # a state_dict, whose attribute _metadata is saved with it
        fresh = kind((name, _copy(value, known)) for name, value in thing.items())
        fresh.__dict__.update(thing.__dict__)
        return fresh
    return copy.deepcopy(thing)
