"""What can be said of a training while it runs: watched from its start, or looked at without hooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import ceil, sqrt

from ..model.diagnosis import Diagnosis
from ..model.instruments import Sample, Series
from ..model.profile import Profile
from ..model.report import Metric, Verdict
from ..model.run import Machine, PacePoint, Progress, Surroundings
from ..source.frames import is_queued
from .causes import RESOURCE
from .host import foreign_cores, measure_host, rate
from .hot_lines import FETCH
from .loop_parts import training_samples
from .metrics import cpu_busy
from .steady import WARMUP_SHARE
from .steps import Z90
from .verdict import NO_GAINS, STEPS_AT_LEAST

SAMPLES_AT_LEAST = 100  # of a training's thread, below which a share is known to 8 points at best
CLEARLY = 1.5  # times the second side, from which confidence is more than low (ours)
AWAKE = 0.5  # of the samples of who makes batches, from which that is a matter of CPU
SLEEPS = {
    "storage": "input.storage",
    "fault": "input.storage",
    "network": "input.network",
    "remote": "input.network",
}
SIDES = {
    "data": "waiting for data", "forward": "the model", "backward": "the model", "loss": "the model",
    "compiled": "the model", "zero_grad": "the model", "optimizer": "the model", "exchange": "other ranks",
    "checkpoint": "checkpoints", "logging": "logging", "user": "its own code", "line": "its own code",
}  # fmt: skip
CAUSES = {
    "the model": "model.compute", "other ranks": "comm.allreduce", "checkpoints": "host.checkpoint",
    "logging": "host.logging", "its own code": "host.python",
}  # fmt: skip
SOURCE = "stack samples of the training thread"


def by_samples(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis with a verdict and a data wait from stack samples; as it was where there are too few."""
    profile = diagnosis.profile
    trainer = _trainer(profile)
    seen: Counter[str] = Counter()
    for one in training_samples(profile, trainer, None) if trainer is not None else ():
        side = "waiting for data" if is_queued(one.stack.frames) else SIDES.get(one.part, "its own code")
        seen[side] += one.stack.count
    host = measure_host(profile, 0.0, profile.run.duration_s, None)
    metrics = diagnosis.metrics | {"cpu_busy_fraction": cpu_busy(host)}
    total = sum(seen.values())
    if total < SAMPLES_AT_LEAST:
        why = f"{total} stack samples of a training thread; {SAMPLES_AT_LEAST} are the least that is judged"
        return replace(diagnosis, metrics=metrics, verdict=replace(diagnosis.verdict, summary=why))
    wait = _share(seen["waiting for data"], total)
    metrics |= {"data_wait_fraction": wait, "exposed_data_wait_fraction": wait}
    return replace(diagnosis, metrics=metrics, verdict=_verdict(profile, trainer, seen, total))


def _trainer(profile: Profile) -> int | None:
    """The process that was seen most in torch, and is no loader's worker."""
    inside: Counter[int] = Counter()
    for one in profile.stacks:
        if one.role == "trainer" and any("/torch/" in frame for frame in one.frames):
            inside[one.pid] += one.count
    return inside.most_common(1)[0][0] if inside else None


def _share(part: int, total: int) -> Metric:
    value = part / total
    wide = Z90 * sqrt(max(value * (1 - value), 1 / total) / total)
    return Metric(value, "share", max(0.0, value - wide), min(1.0, value + wide), total, SOURCE)


def _verdict(profile: Profile, trainer: int | None, seen: Counter[str], total: int) -> Verdict:
    (side, most), *others = seen.most_common()
    shares = ", ".join(f"{name} {count / total:.0%}" for name, count in seen.most_common() if count)
    why = f"of {total} samples of the training thread: {shares}; steps were not timed"
    if side != "waiting for data" and profile.machine.gpus:
        why += ", nor what the accelerator does meanwhile"
        return Verdict("inconclusive", "none", why, "low", None, NO_GAINS)
    cause = _why_late(profile, trainer) if side == "waiting for data" else CAUSES[side]
    bound = RESOURCE[cause] or "io"  # what is written to a disk, or over a network
    sure = "medium" if most >= CLEARLY * (others[0][1] if others else 0) else "low"
    return Verdict(bound, cause, why, sure, None, NO_GAINS)


def _why_late(profile: Profile, trainer: int | None) -> str:
    """Whether whoever makes batches computes, or what it sleeps in."""
    stacks = [one for one in profile.stacks if any(FETCH in frame for frame in one.frames)]
    workers = [one for one in stacks if one.role == "worker"]
    makers = workers or [one for one in stacks if one.pid == trainer]
    known = [one for one in makers if one.running is not None]
    awake = sum(one.running or 0 for one in known)
    if known and awake >= AWAKE * sum(one.count for one in known):
        return "input.preprocess"
    pids = {one.pid for one in makers}
    asleep: Counter[str] = Counter()
    for blocked in profile.blocked:
        for counts in blocked.counts if blocked.pid in pids else ():
            for name, count in counts.items():
                if name != "running":
                    asleep[SLEEPS.get(name, "input.wait")] += count
    return asleep.most_common(1)[0][0] if asleep else "input.wait"


RECENT_NS = 10_000_000_000
READINGS_AT_LEAST = 3  # of each sensor: late in a long run they are half a minute apart
ABREAST = 0.9  # of the furthest one's steps: the others are no ranks of the same training (ours)
STALLED_S = 10.0  # without a batch, and
STALLED_STEPS = 10  # times a step's usual time: then something hangs, or evaluates, or saves (ours)
ENOUGH_STEPS = ceil(STEPS_AT_LEAST / (1 - WARMUP_SHARE))  # of a run, for a verdict that can say anything
PRESSURES = {"cpu": "pressure_cpu_some_s", "io": "pressure_io_some_s", "memory": "pressure_memory_some_s"}


def ranks_of(progress: Sequence[Progress]) -> list[Progress]:
    """The processes that train together, the furthest first."""
    return [one for one in progress if one.steps >= ABREAST * progress[0].steps]


def pace(before: Iterable[Progress], after: Sequence[Progress]) -> PacePoint:
    """Between two looks: the step of the slowest rank, and the data wait of the one that waits most."""
    earlier = {one.pid: one for one in before}
    moved = [
        (earlier[one.pid], one)
        for one in ranks_of(after)
        if one.pid in earlier and one.steps > earlier[one.pid].steps
    ]
    spans = [(then, one, one.last_ns - then.last_ns) for then, one in moved if one.last_ns > then.last_ns]
    if not spans:
        return PacePoint(None, None)
    return PacePoint(
        max(span / (one.steps - then.steps) / 1e9 for then, one, span in spans),
        max(min(1.0, max(0.0, (one.wait_ns - then.wait_ns) / span)) for then, one, span in spans),
    )


def beginning(one: Progress) -> Progress:
    """A process as it was when its first batch had come: the look that nobody took."""
    return Progress(one.pid, 1, 0, 0, one.first_ns, one.first_ns)


def is_stalled(silent_s: float, step_s: float | None) -> bool:
    """Whether no batch came for so long that it is worth saying."""
    return silent_s > max(STALLED_S, STALLED_STEPS * (step_s or 0.0))


def recent(samples: Sequence[Sample]) -> list[Sample]:
    """The samples of the last seconds, a few of each sensor at least."""
    newest = max((sample.t_ns for sample in samples), default=0)
    left: dict[str, int] = {}
    kept = []
    for sample in reversed(samples):
        left[sample.sensor] = left.get(sample.sensor, READINGS_AT_LEAST) - 1
        if sample.t_ns >= newest - RECENT_NS or left[sample.sensor] >= 0:
            kept.append(sample)
    return kept[::-1]


def surroundings(series: Series, machine: Machine) -> Surroundings:
    """The machine over the time of the series; what was not measured is None or left out."""
    if not series.t:
        return Surroundings(machine.cores)
    span = (series.t[0], series.t[-1])
    pressures = {name: rate(series, counter, *span) for name, counter in PRESSURES.items()}
    numbers = range(len([name for name in series.values if name.endswith("_memory_used_bytes")]))
    return Surroundings(
        cores=machine.cores,
        job_cores=rate(series, "job_cpu_s", *span),
        foreign_cores=foreign_cores(series, *span),
        pressure={name: min(1.0, value) for name, value in pressures.items() if value is not None},
        gpu_busy=[busy for n in numbers if (busy := _last(series, f"gpu{n}_busy_share")) is not None],
        gpu_memory=[share for n in numbers if (share := _memory(series, n)) is not None],
    )


def _memory(series: Series, number: int) -> float | None:
    used = _last(series, f"gpu{number}_memory_used_bytes")
    whole = _last(series, f"gpu{number}_memory_bytes")
    return used / whole if used is not None and whole else None


def _last(series: Series, name: str) -> float | None:
    return next((value for value in reversed(series.values.get(name, [])) if value is not None), None)
