"""Saves a checkpoint once in many times, where it goes to the same file again.

Options: ``every``. A file of a new name is always written, since the script may go on to rename or read it;
so a training that gives each checkpoint its own name has none dropped. What lies in the file is an older
state of the trial; a trial writes wherever the script does, and nowhere else.
"""

from __future__ import annotations

import os

from ..hints import Any, Callable, Done, Table
from .apply import wrap


def watchers(options: dict[str, Any], done: Done) -> Table:
    """torch's own format, and the one of safetensors."""
    rare = _SavingInterval(int(options["every"]), done)
    return {
        "torch.serialization": lambda module: wrap(module, "save", rare.saved),
        "safetensors.torch": lambda module: wrap(module, "save_file", rare.saved),
    }


class _SavingInterval:
    """How often each file was to be written."""

    def __init__(self, every: int, done: Done) -> None:
        self.every, self.done = every, done
        self.counts: dict[str, int] = {}

    def saved(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Writes the first of so many."""

        def save(thing: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(target, (str, os.PathLike)):
                return original(thing, target, *args, **kwargs)
            name = os.path.abspath(os.fspath(target))
            count = self.counts[name] = self.counts.get(name, 0) + 1
            if count % self.every == 1 or self.every == 1 or not os.path.exists(name):
                return original(thing, target, *args, **kwargs)
            self.done()
            return None

        return save
