"""Installs what needs torch, once it is there; says which torch it is, and what the script has set."""

from __future__ import annotations

import os
import sys

from . import compiler, device_clock, loader, profiler, torch_settings, training
from .guard import at_fork, quiet, undo
from .hints import Any
from .state import state
from .stop import Control


@quiet
def begin() -> None:
    """torch is looked for: listen to the collector, map the control file, note which function is marked."""
    training.watch_collections()
    loader.mark_functions(os.environ.get("BDOC_DATA_FN", ""))
    state.on_first = settled
    state.control = Control(state.folder)
    profiler.attach(state.control)


@quiet
def torch_arrived(torch: Any) -> None:
    """torch is complete: say which one it is and install what needs all of it."""
    state.writer.fact(fact="torch", version=str(torch.__version__), threads=torch.get_num_threads())
    if os.environ.get("BDOC_TRACER"):
        let_py_spy_in()
    compiler.know(torch)
    # Of other accelerators than CUDA's and ROCm's; asking initialises none.
    other = quiet(torch.accelerator.current_accelerator)  # torch 2.6 raises where there is none
    state.seeking = bool(torch.version.cuda or torch.version.hip) or other() is not None
    device_clock.on_found.append(_device_found)
    loader.wrap_functions()


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
    loader.wrap_functions()
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return
    state.writer.fact(fact="settled", threads=torch.get_num_threads(), device=_computes_on(torch))
    state.writer.fact(fact="switches", **torch_settings.read(torch))


def _computes_on(torch: Any) -> str:
    """The kind of accelerator that the process has begun to use, or "cpu"; asking initialises none."""
    if (torch.version.cuda or torch.version.hip) and torch.cuda.is_initialized():
        return "cuda"
    current = quiet(torch.accelerator.current_accelerator)()
    allocates = getattr(torch._C, "_accelerator_isAllocatorInitialized", None)
    if current is not None and allocates is not None and allocates():
        return str(current.type)
    return "xla" if "torch_xla" in sys.modules else "cpu"


PR_SET_PTRACER = 0x59616D61


@quiet
def let_py_spy_in() -> None:
    """Name the supervisor, if it asked for that, here and in processes that will be forked from here.

    Yama (kernel.yama.ptrace_scope=1, as Ubuntu has it) lets only ancestors look, unless a process names who
    may: prctl(PR_SET_PTRACER). py-spy is no ancestor of the training, so each training process names the
    supervisor, which covers its children and no other process. It holds until either process ends, and is
    replaced by any that the script names later, as crash handlers do.
    """
    tracer = os.environ.get("BDOC_TRACER", "")
    if not tracer.isdigit():
        return
    import ctypes  # torch has loaded it

    prctl, supervisor = ctypes.CDLL(None).prctl, ctypes.c_ulong(int(tracer))

    def name_it() -> None:
        prctl(PR_SET_PTRACER, supervisor, 0, 0, 0)

    name_it()
    at_fork(name_it)
    undo.append(lambda: prctl(PR_SET_PTRACER, ctypes.c_ulong(0), 0, 0, 0))
