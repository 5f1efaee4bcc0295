"""What this machine is, and what can be measured on it."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from ..model.instruments import Capability
from ..model.run import Gap, Machine
from .files import read_pairs, read_text, tracer, what_allows, why_refused
from .gpus import list_gpu_names
from .host import (
    affinity_cores,
    find_cgroups,
    memory_limit_bytes,
    pressure_folder,
    quota_cores,
    read_limits,
    shm_free_bytes,
    throttling,
)
from .nvml import NO_NVML
from .pyspy import INSTALL, REPAIR, WHAT, find_py_spy
from .wait_sampler import Thread, call_numbers

PROBE_TIMEOUT_S = 15.0
SMALL_SHM_BYTES = 64 << 20  # docker's default, which PyTorch's README says is not enough for workers
# A child to try py-spy on. Under Yama it permits that as a training does (agent/torch_setup.py).
CHILD = "print(flush=True); input()"
LET_IN = "import ctypes; ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong({pid}), 0, 0, 0); "
KERNEL_FILES = (
    ("run-queue wait", "schedstat", "use a kernel with CONFIG_SCHED_INFO"),
    ("bytes per task", "io", "use a kernel with CONFIG_TASK_IO_ACCOUNTING"),
    ("lists of children", "task/{pid}/children", "use a kernel with CONFIG_PROC_CHILDREN"),
)


def list_capabilities(root: Path = Path("/")) -> list[Capability]:
    """Everything that ``bdoc env`` shows, the target interpreter excluded. Starts one short-lived child."""
    found = [_cores(root), _shared_memory(root)]
    found += [_kernel_file(root, *file) for file in KERNEL_FILES]
    found += [_groups(root), _pressure(root), _gpus(root)]
    with subprocess.Popen(
        [sys.executable, "-I", "-c", (LET_IN.format(pid=tracer(root)) if tracer(root) else "") + CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()  # an interpreter that is still starting cannot be sampled
            found += [_blocked(child.pid), _py_spy(child.pid)]
        finally:
            child.kill()
    return found


def _either(name: str, there: bool, yes: str, no: str, do: str) -> Capability:
    return Capability(name, there, yes if there else no, "" if there else do)


def _cores(root: Path) -> Capability:
    quota, affinity = quota_cores(find_cgroups(root)), affinity_cores()
    limit = "no cgroup quota" if quota is None else f"a cgroup quota of {quota:g}"
    allowed = min(affinity, quota or float("inf"))
    detail = f"{allowed:g} allowed: {os.cpu_count()} online, {affinity} in the affinity mask, {limit}"
    return Capability("cores", True, detail)


def _shared_memory(root: Path) -> Capability:
    free = shm_free_bytes(root)
    if free is None:
        return Capability("shared memory", False, "/dev/shm is missing", "mount a tmpfs on /dev/shm")
    room = f"{free / 2**30:.2f} GiB free in /dev/shm"
    do = "start the container with --shm-size=8g or --ipc=host"
    return _either("shared memory", free > SMALL_SHM_BYTES, room, f"only {room}", do)


def _kernel_file(root: Path, name: str, file: str, do: str) -> Capability:
    path = root / "proc/self" / file.format(pid=os.getpid())
    there = read_text(path) is not None
    return _either(name, there, f"{path} can be read", f"{path} cannot be read", do)


def _groups(root: Path) -> Capability:
    cgroups = find_cgroups(root)
    seen = f"{cgroups.kind}; throttling is {'not counted' if throttling(cgroups) is None else 'counted'}"
    no, do = "no cgroup file system or membership is visible", "mount the cgroup file system in the container"
    return _either("control groups", cgroups.kind != "none", seen, no, do)


def _pressure(root: Path) -> Capability:
    own = pressure_folder(find_cgroups(root))
    file = root / "proc/pressure/io" if own is None else own / "io.pressure"
    scope = "of the whole machine" if own is None else "of the job's own group"
    do = "boot with psi=1 on Linux 4.20 or later"
    there = read_text(file) is not None
    return _either("pressure stall information", there, f"{file}, {scope}", f"{file} cannot be read", do)


def _gpus(root: Path) -> Capability:
    names, gaps = list_gpu_names(root)
    if names:
        return Capability("gpu counters", True, ", ".join(names))
    if gaps:
        return Capability("gpu counters", False, gaps[0].why, gaps[0].do)
    do = "unset CUDA_VISIBLE_DEVICES" if "CUDA_VISIBLE_DEVICES" in os.environ else NO_NVML
    return Capability("gpu counters", False, "no accelerator is in sight", f"where there is one: {do}")


def _blocked(pid: int) -> Capability:
    name, do = "what blocked threads wait for", what_allows(pid)
    if not call_numbers():
        return Capability(name, False, f"system call numbers of {os.uname().machine} are not known")
    try:
        with closing(Thread(pid, pid, call_numbers())) as thread:
            thread.look()
    except (OSError, ValueError) as error:
        return Capability(name, False, str(error), do)
    no = f"/proc/<pid>/syscall cannot be read: {thread.refused}"
    return _either(name, not thread.refused, "/proc/<pid>/syscall is readable", no, do)


def _py_spy(pid: int) -> Capability:
    """Lets py-spy sample a sibling process, as it will sample the training."""
    program = find_py_spy()
    if program is None:
        return Capability(WHAT, False, "py-spy was not found", INSTALL)
    command = [program, "dump", "--nonblocking", "--pid", str(pid)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Capability(WHAT, False, f"{program} does not run: {error}", REPAIR)
    why = why_refused(pid)
    no = f"{program} may not look" + (f": {why}" if why else "")
    do = what_allows(pid, program=program)
    return _either(WHAT, done.returncode == 0, f"{program} may look", no, do)


def describe_machine(root: Path = Path("/")) -> tuple[Machine, list[Gap]]:
    """What this process, and so the job it starts, may use; and what could not be found out."""
    cgroups = find_cgroups(root)
    quota, affinity = quota_cores(cgroups), affinity_cores()
    read_bytes, read_operations = read_limits(cgroups)
    memory_kib = read_pairs(root / "proc/meminfo").get("MemTotal")
    gpus, gaps = list_gpu_names()
    machine = Machine(
        host=platform.node(),
        kernel=platform.release(),
        cpu=_cpu_model(root),
        cores_online=os.cpu_count() or 1,
        cores=min(float(affinity), quota or float("inf")),
        affinity_cores=affinity,
        quota_cores=quota,
        physical_cores=_physical_cores(root),
        memory_bytes=None if memory_kib is None else memory_kib * 1024,
        memory_limit_bytes=memory_limit_bytes(cgroups),
        shm_free_bytes=shm_free_bytes(root),
        gpus=gpus,
        read_limit_bytes_per_s=read_bytes,
        read_limit_iops=read_operations,
    )
    if cgroups.kind == "none":
        why = f"no control group of this process is visible below {root / 'sys/fs/cgroup'}"
        gaps.append(Gap("container limits", why, "mount the cgroup file system in the container"))
    return machine, gaps


def _physical_cores(root: Path) -> int | None:
    """Cores of this process's mask, hardware threads of one core counted once; None where that is unknown."""
    folder = root / "sys/devices/system/cpu"
    cpus = os.sched_getaffinity(0)
    siblings = {read_text(folder / f"cpu{cpu}/topology/thread_siblings_list") for cpu in cpus}
    return None if None in siblings else len(siblings)


def _cpu_model(root: Path) -> str:
    text = read_text(root / "proc/cpuinfo") or ""
    match = re.search(r"^(?:model name|Model|Hardware|cpu model)\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1).strip() if match else platform.processor() or platform.machine()
