"""What this machine is, and what can be measured on it."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from ..model.instruments import Capability
from ..model.run import Gap, Machine
from .cgroup import find_cgroups, memory_limit_bytes, pressure_folder, quota_cores, read_limit, throttling
from .nvml import (
    ANSWERS_WITHIN_S,
    CLOCK,
    DRIVER_ONLY,
    NO_ANSWER,
    NO_NVML,
    find_gpus,
    gpu_expected,
    has_intel_graphics,
    list_gpu_names,
    unknown_to_nvml,
    within,
)
from .proc_files import read_number, read_pairs, read_text, tracer, what_allows, why_refused
from .pyspy import INSTALL, REPAIR, WHAT, find_py_spy
from .wait_channels import Thread, call_numbers

CACHESTAT = 451  # the same number on every architecture
PROBE_TIMEOUT_S = 15.0
SMALL_SHM_BYTES = 1 << 30  # chosen: below, a few large batches in flight fill it (docker gives 64 MiB)
# A child to try py-spy on. Under Yama it permits that as a training does (agent/ptrace_permission.py).
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
    found += [_groups(root), _pressure(root), _delays(root), _cachestat(), _gpus(root)]
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
    quota, affinity, online = quota_cores(find_cgroups(root)), affinity_cores(), os.cpu_count() or 1
    allowed = min(float(affinity or online), quota or float("inf"))
    mask = f"{online if affinity is None else affinity} in the affinity mask"
    limit = "no cgroup quota" if quota is None else f"a cgroup quota of {quota:g}"
    return Capability("cores", True, f"{allowed:g} allowed: {online} online, {mask}, {limit}")


def _shared_memory(root: Path) -> Capability:
    free = shm_free_bytes(root)
    if free is None:
        return Capability("shared memory", False, "/dev/shm is missing", "mount a tmpfs on /dev/shm")
    room = f"{free / 2**30:.2f} GiB free in /dev/shm"
    do = "start the container with --shm-size=8g or --ipc=host"
    return _either("shared memory", free >= SMALL_SHM_BYTES, room, f"only {room}", do)


def _kernel_file(root: Path, name: str, file: str, do: str) -> Capability:
    path = root / "proc/self" / file.format(pid=os.getpid())
    there = read_text(path) is not None
    return _either(name, there, f"{path} can be read", f"{path} cannot be read", do)


def _groups(root: Path) -> Capability:
    cgroups = find_cgroups(root)
    counted = throttling(cgroups) is not None
    seen = f"{cgroups.kind}; throttling is {'counted' if counted else 'not counted'}"
    do = "mount the cgroup file system in the container"
    return _either(
        "control groups", cgroups.kind != "none", seen, "no cgroup file system or membership is visible", do
    )


def _pressure(root: Path) -> Capability:
    own = pressure_folder(find_cgroups(root))
    file = root / "proc/pressure/io" if own is None else own / "io.pressure"
    scope = "of the whole machine" if own is None else "of the job's own group"
    do = "boot with psi=1 on Linux 4.20 or later"
    there = read_text(file) is not None
    return _either("pressure stall information", there, f"{file}, {scope}", f"{file} cannot be read", do)


def _delays(root: Path) -> Capability:
    on = read_number(root / "proc/sys/kernel/task_delayacct")
    do = "sudo sysctl kernel.task_delayacct=1, before the training starts"
    return _either("delay accounting", bool(on), "on", "off" if on == 0 else "not in this kernel", do)


def _cachestat() -> Capability:
    """Calls cachestat with an invalid descriptor: EBADF or EFAULT: the kernel has the call."""
    try:
        if sys.platform != "linux":
            raise OSError("elsewhere the number is another call's")
        call = ctypes.CDLL(None, use_errno=True).syscall
        call(ctypes.c_long(CACHESTAT), ctypes.c_int(-1), None, None, ctypes.c_uint(0))
        number = ctypes.get_errno()
    except (OSError, AttributeError):
        number = errno.ENOSYS
    no = "cachestat(2) is forbidden here" if number == errno.EPERM else "this kernel has no cachestat(2)"
    there = number in (errno.EBADF, errno.EFAULT)
    return _either("page cache residency", there, "cachestat(2) answers", no, "use Linux 6.5 or later")


def _gpus(root: Path) -> Capability:
    found = within(ANSWERS_WITHIN_S, find_gpus) or NO_ANSWER
    if not isinstance(found, Gap):
        names = ", ".join(gpu.name for gpu in found[1])
        hidden = "no GPU is visible"
        return _either("gpu counters", bool(names), names, hidden, "unset CUDA_VISIBLE_DEVICES")
    if gpu_expected(root) or found is NO_ANSWER:
        return Capability("gpu counters", False, found.why, found.do)
    if others := unknown_to_nvml(root):
        return Capability("gpu counters", False, "; ".join(others.values()))
    if has_intel_graphics(root):
        return Capability("gpu counters", False, DRIVER_ONLY.format(vendor="Intel GPU") + CLOCK)
    return Capability("gpu counters", False, "no accelerator is in sight", f"where there is one: {NO_NVML}")


def _blocked(pid: int) -> Capability:
    known = bool(call_numbers())
    refused = _refusal(pid) if known else f"system call numbers of {os.uname().machine} are not known"
    name, yes = "what blocked threads wait for", "/proc/<pid>/syscall is readable"
    return _either(name, not refused, yes, refused, what_allows(pid) if known else "")


def _refusal(pid: int) -> str:
    try:
        with closing(Thread(pid, pid, call_numbers())) as thread:
            thread.look()
    except (OSError, ValueError) as error:
        return str(error)
    return thread.refused and f"/proc/<pid>/syscall cannot be read: {thread.refused}"


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
        physical_cores=_physical_cores(root),
        memory_bytes=None if memory_kib is None else memory_kib * 1024,
        memory_limit_bytes=memory_limit_bytes(cgroups),
        shm_free_bytes=shm_free_bytes(root),
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


def _physical_cores(root: Path) -> int | None:
    """Cores of this process's mask, hardware threads of one core counted once; None where that is unknown."""
    siblings = set()
    try:
        for cpu in os.sched_getaffinity(0):
            told = root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
            siblings.add(told.read_text())
    except (AttributeError, OSError, ValueError):
        return None
    return len(siblings) or None


def shm_free_bytes(root: Path = Path("/")) -> int | None:
    """Room in /dev/shm, through which loader workers hand over their batches."""
    try:
        room = os.statvfs(root / "dev/shm")
    except OSError:
        return None
    return room.f_bavail * room.f_frsize


def _cpu_model(root: Path) -> str:
    text = read_text(root / "proc/cpuinfo") or ""
    match = re.search(r"^(?:model name|Model|Hardware|cpu model)\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1).strip() if match else platform.processor() or platform.machine()
