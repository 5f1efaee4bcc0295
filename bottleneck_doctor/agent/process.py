"""Introduces a process to the supervisor: who it is, and what torch it has."""

from __future__ import annotations

import os
import sys
import time

from . import device_clock, patch_compiler, patch_function, patch_saving, profiler, startup, switches
from .guard import quiet
from .pulse import state
from .stop import Control

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from typing import Any

_import_started = [0]


@quiet
def introduce() -> None:
    """Write down what is known at start-up."""
    environ = os.environ
    state.book.fact(
        fact="process", pid=os.getpid(), parent=os.getppid(), python="%d.%d.%d" % sys.version_info[:3],
        executable=sys.executable,
        rank=_number(environ.get("RANK")), world_size=_number(environ.get("WORLD_SIZE")),
    )  # fmt: skip
    _import_started[0] = time.monotonic_ns()
    startup.await_end()


@quiet
def take_orders(folder: str) -> None:
    """Map the control file, and let its wishes reach the profiler and the marked function."""
    state.on_first = settled
    state.control = Control(folder)
    profiler.attach(state.control)


@quiet
def torch_arrived(torch: Any) -> None:
    """torch is complete: say which one it is and install what needs all of it."""
    spent = time.monotonic_ns() - _import_started[0]
    state.book.fact(
        fact="torch", version=str(torch.__version__), threads=torch.get_num_threads(),
        accelerator=torch.version.cuda or getattr(torch.version, "hip", None) or "", since_start_ns=spent,
    )  # fmt: skip
    startup.torch_ends()
    if os.environ.get("BDOC_TRACER"):
        from . import permit  # most machines do without

        permit.let_in()
    patch_compiler.know(torch)
    patch_saving.patch_torch(torch)
    state.seeking = bool(torch.version.cuda or getattr(torch.version, "hip", None)) or _other(torch)
    device_clock.on_found.append(_device_found)
    patch_function.look()


@quiet
def _device_found() -> None:
    """The script uses an accelerator: from now on its copies and waits are listened to."""
    from . import compilation, hearing, patch_copies, patch_waits  # most runs do without

    torch: Any = sys.modules["torch"]
    patch_waits.patch(torch)
    patch_copies.patch(torch)
    hearing.install(compilation.compiling())


@quiet
def settled() -> None:
    """The training moves: read what a script sets after importing torch, and mark its function."""
    startup.tell()
    patch_function.look()
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return
    cuda = torch.version.cuda is not None and torch.cuda.is_initialized()
    state.book.fact(
        fact="settled", threads=torch.get_num_threads(), device="cuda" if cuda else "cpu",
        interop=torch.get_num_interop_threads(),
    )  # fmt: skip
    switches.note(torch)


def _other(torch: Any) -> bool:
    """Whether torch was built for an accelerator that is not CUDA's or ROCm's; asking initialises none."""
    known = getattr(torch, "accelerator", None)
    return known is not None and known.current_accelerator() is not None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None
