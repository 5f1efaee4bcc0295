"""Load of the machine by other processes during the steady window, from cumulative counters."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from ..model.device import DeviceView
from ..model.diagnosis import HostLoad, Inputs, Scenario, Step
from ..model.instruments import Series
from ..model.loops import RankSteps
from ..model.profile import Profile
from ..model.report import Metric
from .replay import step_seconds
from .shares import MOST, PART
from .steps import mean_interval, seconds_in, steps_in

SOURCE = "time between batches less the run queue behind other programs"
CROWDED_OUT = "steps were almost entirely waiting for cores that other programs used"


def uncontended(steps: list[Step], inputs: Inputs, workers: int, host: HostLoad) -> Metric | None:
    """The step time in seconds without other processes on the cores; None where that was not measured, no
    value where waiting for them is nearly all of the step.

    Where workers make the batches, the loop's wait is stretched as their fetches are. The job's wait for its
    own threads stays in: only the part of the run queue that other processes added is taken off.
    """
    walls = seconds_in(steps)
    if walls <= 0 or host.foreign_cores is None or all(step.queue is None for step in steps):
        return None
    stretched = inputs.queue / inputs.wall if workers and inputs.wall > 0 else 0.0
    queues = [step.queue or 0.0 for step in steps]  # seconds in which it wanted to go on, and had no core
    if workers:
        queues = [one.held + one.wait * stretched for one in steps]
    lost = min(1.0, sum(queue * step.steps for queue, step in zip(queues, steps, strict=True)) / walls)
    theirs = _theirs(lost, host)
    # A row's queue may belong to the step before it: no single row is held to be above zero.
    left = [step.wall - theirs * queue for step, queue in zip(steps, queues, strict=True)]
    value, low, high = mean_interval(left, [float(step.steps) for step in steps])
    if low <= 0:  # too little is left of such steps to judge
        return Metric(None, "s", source=CROWDED_OUT)
    return Metric(value, "s", low, high, steps_in(steps), SOURCE)


def _theirs(lost: float, host: HostLoad) -> float:
    """Other processes' share of the run queue: their cores over all demand beyond the allowed cores."""
    foreign = strangers(host)
    if foreign <= 0:
        return 0.0
    wanted = (host.job_cores or 0.0) / max(1.0 - lost, 0.05)
    beyond = wanted + foreign - host.cores
    return min(1.0, foreign / beyond) if beyond > 0 else 1.0


def pool_cpu(inputs: Inputs, serialise: float) -> float:
    """CPU per batch of a worker's other threads; the one that feeds the pipe is known and taken off."""
    return max(0.0, inputs.other_cpu - serialise)


def crowding(inputs: Inputs, workers: int, serialise: float) -> float:
    """CPU that a batch costs its whole worker over that of the fetching thread alone, where several workers'
    pools oversubscribe the cores; 1 where they do not: a pool may use idle cores."""
    pool = pool_cpu(inputs, serialise)
    if workers < 2 or inputs.cpu <= 0 or inputs.wall <= 0:
        return 1.0
    if pool < PART * (inputs.cpu + pool) or inputs.queue < PART * inputs.wall:
        return 1.0
    return 1 + pool / inputs.cpu


def _helped(series: Series, begin: float, end: float) -> float:
    """The same of processes that the script started itself: their CPU over that of their main threads."""
    names = ("main_cpu", "main_queue", "beside_cpu")
    main, queue, other = (rate(series, f"children_{name}_s", begin, end) or 0.0 for name in names)
    if main <= 0 or other < PART * (main + other) or queue < PART * (main + queue):
        return 1.0
    return 1 + other / main


def busy_workers(scenario: Scenario) -> float:
    """How many cores the workers keep busy."""
    if not scenario.workers or not scenario.works:
        return 0.0
    batch = sum(one.on_core for one in scenario.works) / len(scenario.works) + scenario.transport.serialise
    return min(scenario.workers, batch / step_seconds(scenario))


FOREIGN_NOISE_CORES = 0.08  # bdoc's supervisor and kernel threads stay below this (chosen)

LEAST_CORES = 0.01  # cores: the smallest quota that is believed


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
    """Cores used by the job and by other processes, disks, throttling; how often its device ran a kernel."""
    series, cores = profile.series, max(LEAST_CORES, profile.machine.cores)
    busy = rate(series, "cpu_busy_s", begin, end)
    job = rate(series, "job_cpu_s", begin, end)
    iowait, idle = (rate(series, f"cpu_{name}_s", begin, end) for name in ("iowait", "idle"))
    foreign = foreign_cores(series, begin, end)
    if foreign is not None:
        ours = (profile.cost.supervisor_cpu_s or 0.0) / max(profile.run.duration_s, 1.0)
        merged = {one.file: one.job_cores or 0.0 for one in _merged_here(profile)}
        siblings = 0.0 if "other_ranks_cpu_s" in series.values else sum(merged.values())
        foreign = max(0.0, foreign - ours - siblings)
    periods = rate(series, "quota_periods", begin, end)
    throttled = rate(series, "throttled_periods", begin, end)
    total = (busy or 0.0) + (idle or 0.0) + (iowait or 0.0)
    training = _training(profile, begin, end)
    alone = training <= {profile.run.pid}  # else the trainers themselves are among the children
    return HostLoad(
        cores=cores,
        cores_online=profile.machine.cores_online,
        trainers=max(1, len(training)) + _sharing(profile),
        job_cores=job,
        foreign_cores=foreign,
        iowait=iowait / total if iowait is not None and total > 0 else None,
        disk_busy=rate(series, "disk_busy_s", begin, end),
        disk_queue=rate(series, "disk_queue_s", begin, end),
        job_read_bytes_per_s=rate(series, "job_read_bytes", begin, end),
        accelerated=device is not None,
        device_busy=device.driver.kernel_share if device is not None else None,
        throttled=throttled / periods if periods and throttled is not None else None,
        helped=_helped(series, begin, end) if alone else 1.0,
    )


def foreign_cores(series: Series, begin: float, end: float) -> float | None:
    """Cores that neither the job used nor its ranks that other runs watch; None where not measured."""
    busy, job = (rate(series, name, begin, end) for name in ("cpu_busy_s", "job_cpu_s"))
    if busy is None or job is None:
        return None
    return max(0.0, busy - job - (rate(series, "other_ranks_cpu_s", begin, end) or 0.0) - FOREIGN_NOISE_CORES)


def _merged_here(profile: Profile) -> list[RankSteps]:
    """Ranks on this machine whose profiles were merged into this one."""
    return [one for one in profile.elsewhere if one.host == profile.machine.host]


def _sharing(profile: Profile) -> int:
    """Ranks that other runs watch and that use the same cores: none where each run can have its own."""
    merged = _merged_here(profile)
    alive = max((count or 0 for count in profile.series.values.get("other_ranks", ())), default=0)
    ranks = max(len(merged), round(alive))
    runs = 1 + max(len({one.file for one in merged}), round(alive))
    return ranks if runs * profile.machine.cores > profile.machine.cores_online else 0


def _training(profile: Profile, begin: float, end: float) -> set[int]:
    """Processes of which a training loop fills at least half of a stretch of time: ranks, or siblings that
    the script started."""
    loops = [(one.pid, one.table.t) for one in [*profile.loops, *profile.outside] if one.role == "train"]
    spans = [(pid, min(end, t[-1]) - max(begin, t[0])) for pid, t in loops if t]
    return {pid for pid, length in spans if length >= MOST * (end - begin) > 0}


def strangers(host: HostLoad) -> float:
    """Cores used by other processes in competition with the job; some may run where the job may not."""
    elsewhere = max(0.0, host.cores_online - host.cores)
    return max(0.0, (host.foreign_cores or 0.0) - elsewhere)
