"""Lists the processes of a run with their roles, and the outcome of a trial."""

from __future__ import annotations

from ..agent import wire
from ..model.computing import Optimizer
from ..model.run import Losses, Order, Process, Treated, Trial
from .facts import (
    BatchesFact,
    DeviceFact,
    LossesFact,
    ProcessFact,
    RanksFact,
    SettledFact,
    TorchFact,
    TreatedFact,
    WorkerFact,
)
from .loaders import Numbering
from .rows import ProcessLog, S

PROCESSES_AT_MOST = 256


def read_processes(logs: list[ProcessLog], numbering: Numbering, origin: int) -> list[Process]:
    """One entry per process that carried the agent; trainers first."""
    births = {
        row.pid: (numbering.get((log.pid, row.loader)), row.worker)
        for log in logs
        for row in log.of(wire.WORKER)
    }
    processes = [_process(log, births.get(log.pid, (None, 0)), origin) for log in logs]
    order = {"trainer": 0, "worker": 1, "other": 2}
    return sorted(processes, key=lambda process: order[process.role])[:PROCESSES_AT_MOST]


def _process(log: ProcessLog, birth: tuple[str | None, int], origin: int) -> Process:
    torch, who = log.first(TorchFact), log.first(ProcessFact)
    rank, world_size = _ranks(log)
    trains = log.of(wire.NEXT, wire.BACKWARD, wire.OPTIMIZER, wire.STEP)
    return Process(
        pid=log.pid,
        ppid=log.parent,
        role="worker" if log.told(WorkerFact) else "trainer" if trains else "other",
        started_s=max(0.0, (log.start_ns - origin) * S),
        rank=rank,
        world_size=world_size,
        loader=birth[0],
        worker=log.first(WorkerFact).worker,
        python=who.python,
        torch=torch.version,
        torch_threads=log.first(SettledFact).threads or torch.threads,
        device=_device(log),
        rows=len(log.rows),
        dropped=max(0, log.board.get("dropped", 0)),
    )


def _ranks(log: ProcessLog) -> tuple[int | None, int | None]:
    """(rank, ranks in all), by the process group, else by the launcher's environment."""
    group, who = log.first(RanksFact), log.first(ProcessFact)
    return (
        who.rank if group.rank is None else group.rank,
        who.world_size if group.world_size is None else group.world_size,
    )


def _device(log: ProcessLog) -> str | None:
    """What it computes on: where its optimizers' parameters are, unless on the host, where they may be kept
    for want of room; else the accelerator that it had begun to use."""
    kinds = [one.device for one in log.told(Optimizer)]
    own = next((kind for kind in kinds if kind and kind not in ("cpu", "meta")), None)
    return own or log.first(DeviceFact).kind or log.first(SettledFact).device or None


AT_MOST = 64  # processes, of each sort
LOSSES_AT_MOST = 256


def read_trial(order: Order | None, logs: list[ProcessLog]) -> Trial | None:
    """None where the run was no trial."""
    if order is None:
        return None
    treated = [Treated(one.name, log.pid, one.why) for log in logs for one in log.told(TreatedFact)]
    losses = []
    for log in logs:  # each fact of a process holds what came since its last one
        values = [value for one in log.told(LossesFact) for value in one.values]
        batches = [value for one in log.told(BatchesFact) for value in one.checksums]
        if values or batches:
            kept = values[:LOSSES_AT_MOST], batches[:LOSSES_AT_MOST]
            losses.append(Losses(log.pid, _ranks(log)[0], *kept))
    return Trial(order, treated[:AT_MOST], losses[:AT_MOST])
