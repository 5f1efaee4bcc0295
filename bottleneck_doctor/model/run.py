"""How the training was started, on what machine, as which processes; and what could not be measured."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Gap:
    """Something that could not be measured: what, why, and how to allow it."""

    what: str
    why: str
    do: str = ""


@dataclass(frozen=True)
class Run:
    """How the training was started and how it ended; ``pid`` is the process that was launched, or looked at
    while it ran, if ``attached``."""

    command: list[str]
    script: str | None
    cwd: str
    started_at: str
    duration_s: float
    exit_status: int
    signal: int | None = None
    stopped_by: str | None = None
    bdoc: str = ""
    pid: int | None = None
    attached: bool = False


@dataclass(frozen=True)
class Machine:
    """What the job was given. ``cores`` = min(affinity, cgroup quota), never the box's count."""

    host: str
    kernel: str
    cpu: str
    cores_online: int
    cores: float
    affinity_cores: int | None = None
    quota_cores: float | None = None
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    shm_free_bytes: int | None = None
    numa_nodes: int | None = None
    fault_s: float | None = None
    gpus: list[str] = field(default_factory=list)
    read_limit_bytes_per_s: float | None = None
    read_limit_iops: float | None = None


@dataclass(frozen=True)
class Process:
    """One Python process of the tree. role: trainer, worker or other (launchers, servers)."""

    pid: int
    ppid: int
    role: str
    started_s: float
    ended_s: float | None = None
    rank: int | None = None
    world_size: int | None = None
    loader: str | None = None
    worker: int | None = None
    python: str = ""
    torch: str | None = None
    torch_threads: int | None = None
    device: str | None = None
    rows: int = 0
    dropped: int = 0
    agent_s: float = 0.0
    torch_s: float | None = None
    executable: str = ""
