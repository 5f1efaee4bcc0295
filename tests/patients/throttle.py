"""A disk held to a limit by the kernel, for scripts that want a slower one; nothing where that is refused."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tests.patients.expected import ReadLimit

CGROUPS = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def held_to(limit: ReadLimit | None, data: Path) -> Iterator[list[str]]:
    """A command prefix that runs what follows under the limit; empty when there is none or it is refused."""
    if limit is None:
        yield []
        return
    group = _make(limit, _disk_of(data))
    if group is None:
        yield []
        return
    try:
        yield ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")]
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


def _make(limit: ReadLimit, disk: str) -> Path | None:
    """A control group with the limit, in whichever version this machine has."""
    old = CGROUPS / "blkio"
    group = (old if old.is_dir() else CGROUPS) / f"bdoc-patient-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        return None
    try:
        if old.is_dir():
            if limit.bytes_per_s:
                (group / "blkio.throttle.read_bps_device").write_text(f"{disk} {limit.bytes_per_s}")
            if limit.reads_per_s:
                (group / "blkio.throttle.read_iops_device").write_text(f"{disk} {limit.reads_per_s}")
        else:
            caps = {"rbps": limit.bytes_per_s, "riops": limit.reads_per_s}
            words = " ".join(f"{name}={value}" for name, value in caps.items() if value)
            (group / "io.max").write_text(f"{disk} {words}")
    except OSError:
        group.rmdir()
        return None
    return group
