"""Installs what needs torch, once it is there; says which torch it is, and what the script has set."""

from __future__ import annotations

import os
import sys

from . import compiler, data_fn, device_clock, profiler, torch_settings, training
from .guard import quiet
from .hints import Any
from .state import state
from .stop import Control


@quiet
def begin() -> None:
    """torch is looked for: listen to the collector, map the control file, note which function is marked."""
    training.watch_collections()
    data_fn.mark(os.environ.get("BDOC_DATA_FN", ""))
    state.on_first = settled
    state.control = Control(state.folder)
    profiler.attach(state.control)


@quiet
def torch_arrived(torch: Any) -> None:
    """torch is complete: say which one it is and install what needs all of it."""
    state.writer.fact(fact="torch", version=str(torch.__version__), threads=torch.get_num_threads())
    if os.environ.get("BDOC_TRACER"):
        from . import ptrace_permission  # most machines do without

        ptrace_permission.let_in()
    compiler.know(torch)
    # Of other accelerators than CUDA's and ROCm's; asking initialises none.
    other = torch.accelerator.current_accelerator
    state.seeking = bool(torch.version.cuda or torch.version.hip) or other() is not None
    device_clock.on_found.append(_device_found)
    data_fn.look()


@quiet
def _device_found() -> None:
    """The script uses an accelerator: from now on its copies and waits are listened to."""
    from . import device_calls, tensor_hooks  # most runs do without

    torch: Any = sys.modules["torch"]
    device_calls.patch(torch)
    tensor_hooks.install(compiler.compiling())


@quiet
def settled() -> None:
    """The training moves: read what a script sets after importing torch, and mark its function."""
    data_fn.look()
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return
    cuda = torch.version.cuda is not None and torch.cuda.is_initialized()
    state.writer.fact(
        fact="settled", threads=torch.get_num_threads(), device="cuda" if cuda else "cpu",
    )  # fmt: skip
    state.writer.fact(fact="switches", **torch_settings.read(torch))
