"""Diagnoses a training while it runs: from hooks since its start, or from stack samples alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import ceil, sqrt

from ..model.diagnosis import Diagnosis
from ..model.profile import Profile
from ..model.report import Metric, Verdict
from ..model.run import Progress
from ..source.files import is_queued
from .causes import RESOURCE
from .host import measure_host
from .hot_lines import FETCH
from .inputs import NETWORK, STORAGE
from .loop_parts import training_samples
from .metrics import cpu_busy
from .ranks import SIMILAR
from .shares import MOST
from .steady import WARMUP_SHARE
from .steps import Z90
from .verdict import NEARER, NO_GAINS, STEPS_AT_LEAST

LIVE_SAMPLES = 100  # of a training's thread; with fewer, a share is known to 8 percentage points at best
SLEEPS = {**dict.fromkeys(STORAGE, "input.storage"), **dict.fromkeys(NETWORK, "input.network")}
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
    if total < LIVE_SAMPLES:
        why = f"{total} stack samples of a training thread; at least {LIVE_SAMPLES} are needed"
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
        why += ", and the accelerator was not measured"
        return Verdict("inconclusive", "none", why, "low", None, NO_GAINS)
    cause = _why_late(profile, trainer) if side == "waiting for data" else CAUSES[side]
    bound = RESOURCE[cause] or "io"  # what is written to a disk, or over a network
    sure = "medium" if (others[0][1] if others else 0) < NEARER * most else "low"
    return Verdict(bound, cause, why, sure, None, NO_GAINS)


def _why_late(profile: Profile, trainer: int | None) -> str:
    """The cause of late batches: their makers compute, or what they sleep in."""
    stacks = [one for one in profile.stacks if any(FETCH in frame for frame in one.frames)]
    workers = [one for one in stacks if one.role == "worker"]
    makers = workers or [one for one in stacks if one.pid == trainer]
    known = [one for one in makers if one.running is not None]
    awake = sum(one.running or 0 for one in known)
    if known and awake >= MOST * sum(one.count for one in known):
        return "input.preprocess"
    pids = {one.pid for one in makers}
    asleep: Counter[str] = Counter()
    for blocked in profile.blocked:
        for counts in blocked.counts if blocked.pid in pids else ():
            for name, count in counts.items():
                if name != "running":
                    asleep[SLEEPS.get(name, "input.wait")] += count
    return asleep.most_common(1)[0][0] if asleep else "input.wait"


STALLED = 10.0  # seconds without a batch, and times a step's usual time: the loop hangs, or saves (chosen)
ENOUGH_STEPS = ceil(STEPS_AT_LEAST / (1 - WARMUP_SHARE))  # of a run, for a verdict


def ranks_of(progress: Sequence[Progress]) -> list[Progress]:
    """The processes that train together, the furthest first."""
    return [one for one in progress if one.steps >= SIMILAR * progress[0].steps]


def pace(before: Iterable[Progress], after: Sequence[Progress]) -> tuple[float | None, float | None]:
    """Seconds per step of the slowest rank, and data wait of the one that waits most, as a share of time."""
    earlier = {one.pid: one for one in before}
    moved = [
        (earlier[one.pid], one, one.last_ns - earlier[one.pid].last_ns)
        for one in ranks_of(after)
        if one.pid in earlier and one.steps > earlier[one.pid].steps
    ]
    if not moved:
        return None, None
    return (
        max(span / (one.steps - then.steps) / 1e9 for then, one, span in moved),
        max(min(1.0, max(0.0, (one.wait_ns - then.wait_ns) / span)) for then, one, span in moved),
    )


def is_stalled(silent_s: float, step_s: float | None) -> bool:
    """Whether no batch came for so long that it is reported."""
    return silent_s > STALLED * max(1.0, step_s or 0.0)
