"""What the machine and strangers did during the steady window, from cumulative counters."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from ..model.derived import DeviceView
from ..model.diagnosis import HostLoad
from ..model.instruments import Series
from ..model.profile import Profile

FOREIGN_NOISE_CORES = 0.08  # our own supervisor and the kernel's housekeeping stay below this (ours)

LEAST_CORES = 0.01  # a quota may be that small; none at all could not have run
OVERLAP = 0.5  # of the steady window, for which another process trains too, to share the cores (ours)


def rate(series: Series, name: str, begin: float, end: float) -> float | None:
    """Growth per second of a cumulative counter over a stretch of time, or None."""
    values = series.values.get(name)
    if not values:
        return None
    first = max(0, bisect_left(series.t, begin) - 1)
    last = min(len(series.t), bisect_right(series.t, end) + 1)
    points = [
        (series.t[place], value) for place in range(first, last) if (value := values[place]) is not None
    ]
    if len(points) < 2 or points[-1][0] <= points[0][0]:
        return None
    return max(0.0, (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0]))


def measure_host(profile: Profile, begin: float, end: float, device: DeviceView | None = None) -> HostLoad:
    """Cores in use by the job and by strangers, disks, throttling; how often its device ran a kernel."""
    series, cores = profile.series, max(LEAST_CORES, profile.machine.cores)
    busy = rate(series, "cpu_busy_s", begin, end)
    job = rate(series, "job_cpu_s", begin, end)
    iowait, idle = (rate(series, f"cpu_{name}_s", begin, end) for name in ("iowait", "idle"))
    foreign = None
    if busy is not None and job is not None:
        ours = (profile.cost.supervisor_cpu_s or 0.0) / max(profile.run.duration_s, 1.0)
        foreign = max(0.0, busy - job - ours - FOREIGN_NOISE_CORES)
    periods = rate(series, "quota_periods", begin, end)
    throttled = rate(series, "throttled_periods", begin, end)
    total = (busy or 0.0) + (idle or 0.0) + (iowait or 0.0)
    return HostLoad(
        cores=cores,
        cores_online=profile.machine.cores_online,
        trainers=max(1, len(_training(profile, begin, end))),
        job_cores=job,
        foreign_cores=foreign,
        iowait=iowait / total if iowait is not None and total > 0 else None,
        disk_busy=rate(series, "disk_busy_s", begin, end),
        disk_read_bytes_per_s=rate(series, "disk_read_bytes", begin, end),
        disk_queue=rate(series, "disk_queue_s", begin, end),
        job_read_bytes_per_s=rate(series, "job_read_bytes", begin, end),
        accelerated=device is not None,
        device_busy=device.driver.kernel_share if device is not None else None,
        throttled=throttled / periods if periods and throttled is not None else None,
    )


def _training(profile: Profile, begin: float, end: float) -> set[int]:
    """Processes of which a training loop fills at least half of a stretch of time: ranks, or siblings that
    the script started."""
    loops = [*((one.pid, one.table.t) for one in profile.loops if one.role == "train"),
             *((one.pid, one.t) for one in profile.outside)]  # fmt: skip
    spans = [(pid, min(end, t[-1]) - max(begin, t[0])) for pid, t in loops if t]
    return {pid for pid, length in spans if length >= OVERLAP * (end - begin) > 0}


def strangers(host: HostLoad) -> float:
    """Cores' worth of other people's work that competes with the job; they may live where it may not go."""
    elsewhere = max(0.0, host.cores_online - host.cores)
    return max(0.0, (host.foreign_cores or 0.0) - elsewhere)
