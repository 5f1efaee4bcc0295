"""Who a process is, where its start goes (before torch, importing it, after it), when its end begins."""

from __future__ import annotations

import atexit
import os
import sys
from time import monotonic_ns as now

from .guard import quiet
from .hints import Any
from .importing import pace
from .state import state

_marks = {"torch_begin_ns": 0, "torch_end_ns": 0}
_told = [False]
_before = [0, 0]  # what other modules, and torch's, had taken when torch was complete


@quiet
def introduce() -> None:
    """Write down who this process is."""
    environ = os.environ
    state.writer.fact(
        fact="process", python="%d.%d.%d" % sys.version_info[:3],
        executable=sys.executable,
        rank=_number(environ.get("RANK")), world_size=_number(environ.get("WORLD_SIZE")),
    )  # fmt: skip
    await_end()


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def torch_begins(module: Any) -> None:
    """``module`` is torch.torch_version: among the first that torch imports."""
    _marks["torch_begin_ns"] = now()
    _before[0] = pace.other_ns


def torch_ends() -> None:
    """torch is complete: what was imported meanwhile was for it."""
    _marks["torch_end_ns"] = now()
    _before[0] = pace.other_ns - _before[0]
    _before[1] = pace.torch_ns


@quiet
def tell(moves: bool = True) -> None:
    """The first batch is here, or the process ends without one: say how the time until now went."""
    _told[0] = True
    other, late = pace.other_ns - _before[0], pace.torch_ns - _before[1]
    state.writer.fact(
        fact="startup", first_batch_ns=now() if moves else 0, imports_ns=max(0, other),
        torch_late_ns=max(0, late), **_marks,
    )  # fmt: skip


def await_end() -> None:
    """One instant and two counts when the interpreter shuts down: nobody outside can tell a script that goes
    on after its last batch from one that is being torn down. Registered first, it is called last."""
    atexit.register(_ends)


@quiet
def _ends() -> None:
    if state.worker:
        return
    if _marks["torch_end_ns"] and not _told[0]:
        tell(moves=False)
    state.catch_up(None)
    state.writer.fact(fact="exit", at_ns=now(), arrivals=state.arrivals, trained=state.trained)
