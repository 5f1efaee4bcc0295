"""Says which processes a run had and what each one was."""

from __future__ import annotations

from ..agent import wire
from ..model.profile import Process
from .loaders import Numbering
from .rows import Diary
from .steps import S

PROCESSES_AT_MOST = 256


def read_processes(diaries: list[Diary], numbering: Numbering, origin: int) -> list[Process]:
    """One entry per process that carried the agent; trainers first."""
    births = {
        row.a: (numbering.get((diary.pid, row.thing)), row.b)
        for diary in diaries
        for row in diary.of(wire.WORKERS)
    }
    processes = [_process(diary, births.get(diary.pid, (None, 0)), origin) for diary in diaries]
    order = {"trainer": 0, "worker": 1, "other": 2}
    return sorted(processes, key=lambda process: order[process.role])[:PROCESSES_AT_MOST]


def _process(diary: Diary, birth: tuple[str | None, int], origin: int) -> Process:
    worker, torch, who = diary.first("worker"), diary.first("torch"), diary.first("process")
    settled, ranks = diary.first("settled"), diary.first("ranks")
    ends = [row.t + (0 if row.kind == wire.LOOP else row.duration) for row in diary.rows]
    since = torch.get("since_start_ns")
    return Process(
        pid=diary.pid,
        ppid=diary.parent,
        role=_role(diary),
        started_s=max(0.0, (diary.start_ns - origin) * S),
        ended_s=max(0.0, (max(ends) - origin) * S) if ends else None,
        rank=ranks.get("rank", who.get("rank")),
        world_size=ranks.get("world_size", who.get("world_size")),
        loader=birth[0],
        worker=worker.get("worker"),
        python=str(who.get("python", "")),
        torch=torch.get("version"),
        torch_threads=settled.get("threads") or torch.get("threads"),
        device=_device(diary),
        rows=len(diary.rows),
        dropped=max(0, diary.board.get("dropped", 0)),
        agent_s=max(0, diary.board.get("cost_ns", 0)) * S,
        torch_s=since * S if since else None,
        executable=str(who.get("executable") or ""),
    )


def _device(diary: Diary) -> str | None:
    """What it computes on: where its optimizers' parameters are, unless on the host, where they may be kept
    for want of room; else the accelerator that it had begun to use."""
    kinds = [fact.get("device") for fact in diary.facts if fact.get("fact") == "optimizer"]
    own = next((str(kind) for kind in kinds if kind and kind not in ("cpu", "meta")), None)
    known = own or diary.first("device").get("kind") or diary.first("settled").get("device")
    return str(known) if known else None


def _role(diary: Diary) -> str:
    if diary.first("worker"):
        return "worker"
    moving = {wire.NEXT, wire.BACKWARD, wire.OPTIMIZER, wire.PASS}
    return "trainer" if any(row.kind in moving for row in diary.rows) else "other"
