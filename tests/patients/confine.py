"""Control groups around a patient: slower disk, less memory, less CPU time; nothing where refused."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tests.patients.patient import Patient
from tests.patients.throttle import held_to

CGROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 100_000


@contextlib.contextmanager
def confined(patient: Patient, data: Path) -> Iterator[list[str]]:
    """A command prefix that runs what follows under every limit of the patient that can be had."""
    with contextlib.ExitStack() as stack:
        prefix = stack.enter_context(held_to(patient.limit, data))
        if patient.memory_bytes is not None:
            limit = str(patient.memory_bytes)
            v1, v2 = {"memory.limit_in_bytes": limit}, {"memory.max": limit}
            prefix = prefix + stack.enter_context(_group("memory", v1, v2))
        if patient.quota_cores is not None:
            quota = str(round(patient.quota_cores * PERIOD_US))
            v1 = {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": quota, "cpu.shares": "16384"}
            v2 = {"cpu.max": f"{quota} {PERIOD_US}", "cpu.weight": "1600"}  # the quota, not strangers
            prefix = prefix + stack.enter_context(_group("cpu", v1, v2))
        yield prefix


@contextlib.contextmanager
def _group(controller: str, v1: dict[str, str], v2: dict[str, str]) -> Iterator[list[str]]:
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
