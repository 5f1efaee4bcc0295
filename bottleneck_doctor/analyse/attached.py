"""Judges a training that was looked at while it ran, without hooks: by stack samples of its threads alone.

Steps are not known, and so nothing is predicted. What the training thread was seen in says which side the
time goes to; what its workers were seen in, why batches are late.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import sqrt

from ..model.diagnosis import Diagnosis
from ..model.profile import Profile
from ..model.report import Metric, Verdict
from .causes import RESOURCE
from .host import measure_host
from .hot_lines import FETCH
from .intervals import Z90
from .loop_parts import is_queued, training_samples
from .metrics import cpu_busy
from .verdict import NO_GAINS

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
