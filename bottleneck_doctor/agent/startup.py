"""Who a process is, where its start goes (before torch, importing it, after it), when its end begins."""

from __future__ import annotations

import atexit
import os
import sys
from time import monotonic_ns as now

from .guard import quiet, undo
from .hints import Any
from .importing import pace
from .state import state

# Rank and number of ranks, as launchers tell each task; a process group, once it is there, says it better.
# Slurm's batch script is task 0 of its own, so the step's count is asked for [srun(1), mpirun(1)].
LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),  # torchrun, DeepSpeed, PyTorchJob
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
)
_marks = {"torch_begin_ns": 0, "torch_end_ns": 0}
_reported = [False]
_before = [0, 0]  # what other modules, and torch's, had taken when torch was complete


@quiet
def introduce() -> None:
    """Write down who this process is."""
    rank, world_size = _launched()
    state.writer.fact(
        fact="process", python="%d.%d.%d" % sys.version_info[:3], rank=rank, world_size=world_size
    )
    await_end()


def _launched() -> tuple[int | None, int | None]:
    """(rank, ranks in all) by the first launcher that tells both."""
    for names in LAUNCHERS:
        rank, count = [_number(os.environ.get(name)) for name in names]
        if rank is not None and count is not None:
            return rank, count
    return None, None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def torch_begins(module: Any) -> None:
    """``module`` is torch.torch_version: among the first that torch imports."""
    _marks["torch_begin_ns"] = now()
    _before[0] = pace.other_ns


def torch_ends() -> None:
    """torch is imported: the imports since `torch_begins` are counted to it."""
    _marks["torch_end_ns"] = now()
    _before[0] = pace.other_ns - _before[0]
    _before[1] = pace.torch_ns


@quiet
def tell(moves: bool = True) -> None:
    """The first batch is here, or the process ends without one: write down how long each phase took."""
    _reported[0] = True
    other, late = pace.other_ns - _before[0], pace.torch_ns - _before[1]
    state.writer.fact(
        fact="startup", first_batch_ns=now() if moves else 0, imports_ns=max(0, other),
        torch_late_ns=max(0, late), **_marks,
    )  # fmt: skip


def await_end() -> None:
    """Note the time and two counts when the interpreter shuts down: from outside, a script that goes on after
    its last batch looks like one that shuts down. Registered first, it is called last."""
    atexit.register(ends)
    undo.append(lambda: atexit.unregister(ends))


@quiet
def ends() -> None:
    """The process, or what is watched of it, ends."""
    if state.worker:
        return
    if _marks["torch_end_ns"] and not _reported[0]:
        tell(moves=False)
    state.catch_up(None)
    state.writer.fact(fact="exit", at_ns=now(), arrivals=state.arrivals, trained=state.trained)
