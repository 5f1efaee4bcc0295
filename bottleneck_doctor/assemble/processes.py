"""Says which processes a run had, what each one was, and what became of a trial in it."""

from __future__ import annotations

from ..agent import wire
from ..model.run import Losses, Order, Process, Treated, Trial
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
    worker, torch, who = log.first("worker"), log.first("torch"), log.first("process")
    settled, ranks = log.first("settled"), log.first("ranks")
    ends = [row.end for row in log.rows]
    since = torch.get("since_start_ns")
    return Process(
        pid=log.pid,
        ppid=log.parent,
        role=_role(log),
        started_s=max(0.0, (log.start_ns - origin) * S),
        ended_s=max(0.0, (max(ends) - origin) * S) if ends else None,
        rank=ranks.get("rank", who.get("rank")),
        world_size=ranks.get("world_size", who.get("world_size")),
        loader=birth[0],
        worker=worker.get("worker"),
        python=str(who.get("python", "")),
        torch=torch.get("version"),
        torch_threads=settled.get("threads") or torch.get("threads"),
        device=_device(log),
        rows=len(log.rows),
        dropped=max(0, log.board.get("dropped", 0)),
        agent_s=max(0, log.board.get("cost_ns", 0)) * S,
        torch_s=since * S if since else None,
        executable=str(who.get("executable") or ""),
    )


def _device(log: ProcessLog) -> str | None:
    """What it computes on: where its optimizers' parameters are, unless on the host, where they may be kept
    for want of room; else the accelerator that it had begun to use."""
    kinds = [fact.get("device") for fact in log.facts if fact.get("fact") == "optimizer"]
    own = next((str(kind) for kind in kinds if kind and kind not in ("cpu", "meta")), None)
    known = own or log.first("device").get("kind") or log.first("settled").get("device")
    return str(known) if known else None


def _role(log: ProcessLog) -> str:
    if log.first("worker"):
        return "worker"
    return "trainer" if log.of(wire.NEXT, wire.BACKWARD, wire.OPTIMIZER, wire.STEP) else "other"


AT_MOST = 64  # processes, of each sort
LOSSES_AT_MOST = 256


def read_trial(order: Order | None, logs: list[ProcessLog]) -> Trial | None:
    """None where the run was no trial."""
    if order is None:
        return None
    treated = [
        Treated(str(fact.get("name", "")), log.pid, str(fact.get("why", "")))
        for log in logs
        for fact in log.facts
        if fact.get("fact") == "treated"
    ]
    return Trial(order, treated[:AT_MOST], [one for one in map(_losses, logs) if one is not None][:AT_MOST])


def _losses(log: ProcessLog) -> Losses | None:
    """Several facts of one process follow each other: each holds what came since the last."""
    values = [value for fact in log.facts if fact.get("fact") == "losses" for value in fact["values"]]
    batches = [value for fact in log.facts if fact.get("fact") == "batches" for value in fact["checksums"]]
    if not values and not batches:
        return None
    rank = log.first("ranks").get("rank", log.first("process").get("rank"))
    return Losses(log.pid, rank, values[:LOSSES_AT_MOST], batches[:LOSSES_AT_MOST])
