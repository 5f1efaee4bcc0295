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


class _Marks:
    """Instants, 0 = not yet; what importing other modules, and torch's, had taken when torch was complete."""

    torch_begin_ns = torch_end_ns = 0
    other_ns = torch_ns = 0
    written = False


@quiet
def introduce() -> None:
    """Write down who this process is, its rank by the first launcher that sets both names. The hook on its
    end is registered first, and so called last."""
    named = [[os.environ.get(name, "") for name in names] for names in LAUNCHERS]
    rank, size = next(([*map(int, one)] for one in named if all(map(str.isdigit, one))), (None, None))
    python = "%d.%d.%d" % sys.version_info[:3]
    state.writer.fact(fact="process", python=python, rank=rank, world_size=size)
    atexit.register(ends)
    undo.append(lambda: atexit.unregister(ends))


def torch_begins(module: Any) -> None:
    """``module`` is torch.torch_version: among the first that torch imports."""
    _Marks.torch_begin_ns = now()
    _Marks.other_ns = pace.other_ns


def torch_ends() -> None:
    """torch is imported: the imports since `torch_begins` are counted to it."""
    _Marks.torch_end_ns = now()
    _Marks.other_ns, _Marks.torch_ns = pace.other_ns - _Marks.other_ns, pace.torch_ns


@quiet
def tell(moves: bool = True) -> None:
    """The first batch is here, or the process ends without one: write down how long each phase took."""
    _Marks.written = True
    state.writer.fact(
        fact="startup", first_batch_ns=now() if moves else 0,
        imports_ns=max(0, pace.other_ns - _Marks.other_ns),
        torch_late_ns=max(0, pace.torch_ns - _Marks.torch_ns),
        torch_begin_ns=_Marks.torch_begin_ns, torch_end_ns=_Marks.torch_end_ns,
    )  # fmt: skip


@quiet
def ends() -> None:
    """The process, or what is watched of it, ends: note the instant and two counts. From outside, a script
    that goes on after its last batch looks like one that shuts down."""
    if state.worker:
        return
    if _Marks.torch_end_ns and not _Marks.written:
        tell(moves=False)
    state.catch_up(None)
    state.writer.fact(fact="exit", at_ns=now(), arrivals=state.arrivals, trained=state.trained)
