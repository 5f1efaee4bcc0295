"""Divides the traffic of the machine's disks between the job and strangers."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.profile import Profile
from .host import rate

DISK_BUSY = 0.5  # share of time with a request in flight, below which nobody is in anybody's way (ours)
OURS_AT_LEAST = 0.7  # of the traffic; less, and the disks are shared [catalogue F21]
LITTLE_BYTES_PER_S = 5e6  # of strangers' traffic disturbs no disk (ours)


@dataclass(frozen=True)
class Disks:
    """Bytes per second, read and written, on all physical disks together; ``busy`` as a share of time."""

    busy: float
    queue: float
    all_bytes_per_s: float
    job_bytes_per_s: float

    @property
    def strangers_bytes_per_s(self) -> float:
        """What the job did not cause."""
        return max(0.0, self.all_bytes_per_s - self.job_bytes_per_s)

    @property
    def job_share(self) -> float:
        """The job's part of the traffic, 1 where there is none."""
        return min(1.0, self.job_bytes_per_s / self.all_bytes_per_s) if self.all_bytes_per_s > 0 else 1.0

    @property
    def shared(self) -> bool:
        """Whether strangers take so much of busy disks that the job must notice."""
        large = self.strangers_bytes_per_s >= LITTLE_BYTES_PER_S and self.job_share < OURS_AT_LEAST
        return large and self.busy >= DISK_BUSY


def measure_disks(profile: Profile, begin: float, end: float) -> Disks | None:
    """The traffic of a stretch of time; None where either side was not counted."""
    series = profile.series
    names = ("disk_busy_s", "disk_read_bytes", "disk_write_bytes", "job_read_bytes", "job_write_bytes")
    busy, read, written, job_read, job_written = (rate(series, name, begin, end) for name in names)
    if busy is None or read is None or job_read is None:
        return None
    return Disks(
        busy=min(1.0, busy),
        queue=rate(series, "disk_queue_s", begin, end) or 0.0,
        all_bytes_per_s=read + (written or 0.0),
        job_bytes_per_s=job_read + (job_written or 0.0),
    )
