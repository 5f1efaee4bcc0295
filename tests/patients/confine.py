"""Control groups around a patient: slower disk, less memory, less CPU time; nothing where refused."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tests.patients.patient import Patient

CGROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 100_000

Settings = dict[str, str]  # a group's file, and what is written to it


@contextlib.contextmanager
def confined(patient: Patient, data: Path) -> Iterator[list[str]]:
    """A command prefix that runs what follows under every limit of the patient that can be had."""
    with contextlib.ExitStack() as stack:
        groups = [stack.enter_context(_group(*limit)) for limit in _limits(patient, data)]
        yield [word for prefix in groups for word in prefix]


def _limits(patient: Patient, data: Path) -> Iterator[tuple[str, Settings, Settings]]:
    """For each limit the controller, and its settings in version 1 and in version 2."""
    if patient.limit is not None:
        disk, one = _disk_of(data), patient.limit
        caps = {name: cap for name, cap in (("bps", one.bytes_per_s), ("iops", one.reads_per_s)) if cap}
        v1 = {f"blkio.throttle.read_{name}_device": f"{disk} {cap}" for name, cap in caps.items()}
        yield "blkio", v1, {"io.max": " ".join([disk, *(f"r{name}={cap}" for name, cap in caps.items())])}
    if patient.memory_bytes is not None:
        limit = str(patient.memory_bytes)
        yield "memory", {"memory.limit_in_bytes": limit}, {"memory.max": limit}
    if patient.quota_cores is not None:
        quota = str(round(patient.quota_cores * PERIOD_US))
        v1 = {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": quota, "cpu.shares": "16384"}
        # The weight: the quota is what stops it, not strangers.
        yield "cpu", v1, {"cpu.max": f"{quota} {PERIOD_US}", "cpu.weight": "1600"}


@contextlib.contextmanager
def _group(controller: str, v1: Settings, v2: Settings) -> Iterator[list[str]]:
    """A group of one controller, in whichever version this machine has."""
    old = CGROUPS / controller
    group = (old if old.is_dir() else CGROUPS) / f"bdoc-patient-{controller}-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        yield []
        return
    try:
        for name, value in (v1 if old.is_dir() else v2).items():
            (group / name).write_text(value)
        prefix = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")]
    except OSError:
        prefix = []
    try:
        yield prefix
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()


def _disk_of(data: Path) -> str:
    """The device below a folder as ``major:minor``; of a partition, the disk it is cut from."""
    device = os.stat(data).st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    block = Path("/sys/dev/block") / name
    if (block / "partition").exists():
        return (block.resolve().parent / "dev").read_text().strip()
    return name
