"""Describes the machine as the job was given it: cores, memory, disks' limits, GPUs."""

from __future__ import annotations

import mmap
import os
import platform
import re
import time
from pathlib import Path

from ..model.run import Gap, Machine
from .cgroup import find_cgroups, memory_limit_bytes, quota_cores, read_limit
from .proc_files import read_pairs, read_text
from .visible_gpus import list_gpu_names

FAULTED_BYTES = 8 << 20


def describe_machine(root: Path = Path("/")) -> tuple[Machine, list[Gap]]:
    """What this process, and so the job it starts, may use; and what could not be found out."""
    cgroups = find_cgroups(root)
    quota = quota_cores(cgroups)
    affinity = affinity_cores()
    online = os.cpu_count() or 1
    limit = read_limit(cgroups)
    memory_kib = read_pairs(root / "proc/meminfo").get("MemTotal")
    gpus, gaps = list_gpu_names()
    machine = Machine(
        host=platform.node(),
        kernel=platform.release(),
        cpu=_cpu_model(root),
        cores_online=online,
        cores=min(float(affinity or online), quota or float("inf")),
        affinity_cores=affinity,
        quota_cores=quota,
        memory_bytes=None if memory_kib is None else memory_kib * 1024,
        memory_limit_bytes=memory_limit_bytes(cgroups),
        shm_free_bytes=shm_free_bytes(root),
        numa_nodes=_numa_nodes(root),
        gpus=gpus,
        read_limit_bytes_per_s=limit.bytes_per_s,
        read_limit_iops=limit.operations_per_s,
    )
    if cgroups.kind == "none":
        why = f"no control group of this process is visible below {root / 'sys/fs/cgroup'}"
        gaps.append(Gap("container limits", why, "mount the cgroup file system in the container"))
    return machine, gaps


def affinity_cores() -> int | None:
    """Cores in this process's mask (taskset, cpuset); None where the system has no masks."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return None


def shm_free_bytes(root: Path = Path("/")) -> int | None:
    """Room in /dev/shm, through which loader workers hand over their batches."""
    try:
        room = os.statvfs(root / "dev/shm")
    except OSError:
        return None
    return room.f_bavail * room.f_frsize


def fault_s() -> float | None:
    """CPU seconds to map, zero and give back one page, timed here: 10 ms in all, never beside a training."""
    pages = FAULTED_BYTES // mmap.PAGESIZE
    try:
        return min(_fault_all(pages) for _ in range(3)) / pages
    except OSError:
        return None


def _fault_all(pages: int) -> float:
    began = time.thread_time()
    with mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        memory[:: mmap.PAGESIZE] = bytes(pages)
    return time.thread_time() - began


def _cpu_model(root: Path) -> str:
    text = read_text(root / "proc/cpuinfo") or ""
    match = re.search(r"^(?:model name|Model|Hardware|cpu model)\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1).strip() if match else platform.processor() or platform.machine()


def _numa_nodes(root: Path) -> int | None:
    nodes = list((root / "sys/devices/system/node").glob("node[0-9]*"))
    return len(nodes) or None
