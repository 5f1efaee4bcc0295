"""Lets the supervisor's py-spy look into this process, where Yama asks for the process's own consent.

Yama (kernel.yama.ptrace_scope=1, as Ubuntu has it) lets only ancestors look, unless a process names who may:
prctl(PR_SET_PTRACER). py-spy is no ancestor of the training, so each training process names the supervisor,
which covers its children and no other process. It holds until either process ends, and is replaced by any
that the script names later, as crash handlers do. The supervisor asks for it only where it is needed.
"""

from __future__ import annotations

import os

from .guard import at_fork, quiet, undo

PR_SET_PTRACER = 0x59616D61


@quiet
def let_in() -> None:
    """Name the supervisor, if it asked for that, here and in processes that will be forked from here.

    torch has loaded ctypes long before this is called.
    """
    tracer = os.environ.get("BDOC_TRACER", "")
    if not tracer.isdigit():
        return
    import ctypes

    prctl, supervisor = ctypes.CDLL(None).prctl, ctypes.c_ulong(int(tracer))

    def name_it() -> None:
        prctl(PR_SET_PTRACER, supervisor, 0, 0, 0)

    name_it()
    at_fork(name_it)
    undo.append(lambda: prctl(PR_SET_PTRACER, ctypes.c_ulong(0), 0, 0, 0))
