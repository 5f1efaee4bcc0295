"""Who a process is, and when its end begins."""

from __future__ import annotations

import atexit
import os
import sys
from time import monotonic_ns as now

from .guard import quiet, undo
from .state import state

# Rank and number of ranks, as launchers tell each task; a process group, once it is there, says it better.
# Slurm's batch script is task 0 of its own, so the step's count is asked for [srun(1), mpirun(1)].
LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),  # torchrun, DeepSpeed, PyTorchJob
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
)


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


@quiet
def ends() -> None:
    """The process, or what is watched of it, ends: note the instant and two counts. From outside, a script
    that goes on after its last batch looks like one that shuts down."""
    if state.worker:
        return
    state.catch_up(None)
    state.writer.fact(fact="exit", at_ns=now(), arrivals=state.arrivals, trained=state.trained)
