"""Takes the agent out of a process that goes on, where only a block of it was watched (``watch()``).

What Python cannot take back stays and does nothing: an audit hook and a pair of calls at forks, one of each
however often we come. The agent's modules are forgotten, so that the next time begins with fresh ones.
"""

from __future__ import annotations

import os
import sys
from types import FunctionType

from . import guard
from .hints import Any
from .state import process_ends, state


def take_off() -> None:
    """Note the end, put back all that was patched, close the files."""
    process_ends()
    while guard.undo:
        guard.quiet(guard.undo.pop())()
    guard.quiet(_hand_back)()
    known: Any = sys
    for calls in (*known._bdoc_forks.values(), getattr(known, "_bdoc_opens", [])):
        calls.clear()
    guard.quiet(_fall_silent)()
    for name in [one for one in sys.modules if one.partition(".")[0] == __package__]:
        del sys.modules[name]
    known._bdoc_armed = False


def _hand_back() -> None:
    """Modules that imported a wrapper by its name get the original; tables that hold the wrapper learn it."""
    overrides: Any = sys.modules.get("torch.overrides")
    if overrides is not None:
        overrides.get_ignored_functions.cache_clear()
    known: dict[int, str] = getattr(sys.modules.get("torch.jit._builtins"), "_builtin_table", None) or {}
    kinds = FunctionType, guard.InC
    for module in list(sys.modules.values()):
        for name, value in list(guard.attributes(module).items()):
            original = guard.attributes(value).get("_bdoc_original") if type(value) in kinds else None
            if original is not None:
                setattr(module, name, original)
                if id(value) in known:
                    known[id(original)] = known[id(value)]


def _fall_silent() -> None:
    """Hooks that the script has wrapped cannot be taken off: from now on they write no rows."""
    writer, control = state.writer, state.control
    state.close, state.resting, state.row = False, True, lambda *_, **__: None
    state.accelerator = state.look = state.control = None
    opened = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            opened.add(os.readlink("/proc/self/fd/" + number))
        except OSError:  # that of this very list
            pass
    for holder, path in ((writer, writer.path + ".rows"), (control, os.path.join(state.folder, "control"))):
        mapped = getattr(holder, "map", None)
        if mapped is not None and path in opened:  # else its descriptor's number is the script's by now
            if holder is writer:
                writer.map, writer.limit, writer.facts_left = None, 0, 0
            guard.kept.remove(mapped)
            mapped.close()
