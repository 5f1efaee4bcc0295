"""Chooses the steps that are compared: after everybody's warm-up, enough for a sure mean, whole epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..analyse.repeats import NORMAL_95
from ..model.diagnosis import Diagnosis
from ..model.proof import Arm, ComparedSteps
from .cost import first_batch_s
from .gains import BELIEVED

LEAST = 60  # steady steps
LEAST_S = 2.0  # of them: shorter ones are lost in what a machine does now and then (ours)
TREATED_S = 1.0  # of the fastest arm's, by its prediction: its first half second is not like the rest (ours)
AT_MOST = 0.75  # of the steps that were watched: two rounds of three arms then fit into ten first runs
WARMUP = 10  # steps [analyse/steady.WARMUP_STEPS]
NOTED = 40  # the first steps, whose losses and batches are noted [agent/treatments/losses], are left out
NOTED_S = 2.0  # where they take no longer than this
WARMUP_SHARE = 0.34  # of a short training [analyse/steady.WARMUP_SHARE]
FED_FROM = 18  # the ceiling's loop is fed from memory after 16 batches [agent/treatments/replay.BATCHES]
SHORT = 2.0  # epochs no longer than so many times the steps needed are compared whole (ours)


def span_of(diagnosis: Diagnosis, arms: Sequence[Arm], max_steps: int | None = None) -> ComparedSteps:
    """The span for runs of these arms; none trains more than ``max_steps``.

    Queues that are full at the start make the first steps cheap: what a treated loader may hold is warm-up.
    """
    wanted, cycle = _wanted(diagnosis, arms), _cycle(diagnosis)
    if any(arm.scope == "run" for arm in arms):
        cycle, wanted = _evaluations_apart(diagnosis), max(wanted, _evaluations_apart(diagnosis))
    if 0 < cycle <= SHORT * wanted:
        wanted = math.ceil(wanted / cycle) * cycle
    fed = [FED_FROM for arm in arms if arm.kind == "ceiling"]
    noted = NOTED if NOTED * diagnosis.step_s <= NOTED_S else 0
    begin = max([WARMUP, noted, *fed, *(2 * _slots(diagnosis, arm) for arm in arms)])
    most = min(_most(diagnosis), max_steps or 1 << 62)
    if begin + wanted > most:  # a short training: rather less warm-up than no steps to compare
        begin = min(begin, int(WARMUP_SHARE * most))
    return ComparedSteps(begin, min(begin + wanted, most))


def _most(diagnosis: Diagnosis) -> int:
    """The steps that the script trains when it is let alone, where it was."""
    table = diagnosis.loop.table if diagnosis.loop is not None else diagnosis.outside
    ended = diagnosis.profile.run.stopped_by is None
    return sum(table.steps) if ended and table is not None else 1 << 62


def _wanted(diagnosis: Diagnosis, arms: Sequence[Arm]) -> int:
    """Steps of a run that tell most for the time: n steps of t after a start of s cost s + n t, and leave the
    noise between runs b, and w / sqrt(n) within; that is least for n = (w / b) sqrt(s / t)."""
    steady, step_s = max(1, diagnosis.quality.steady_steps), max(diagnosis.step_s, 1e-9)
    metric = diagnosis.quality.uncontended_step or diagnosis.metrics.get("step_time_s")
    within = 0.0
    if metric is not None and metric.value and metric.low is not None and metric.high is not None:
        within = (metric.high - metric.low) / 2 / NORMAL_95 / metric.value * math.sqrt(steady)
    best = within / BELIEVED * math.sqrt(first_batch_s(diagnosis) / step_s)
    fastest = max([1.0, *(arm.predicted.reach for arm in arms if arm.predicted is not None)])
    least_s = max(LEAST_S, TREATED_S * fastest)
    return math.ceil(min(max(LEAST, best, least_s / step_s), max(LEAST, AT_MOST * steady)))


def _cycle(diagnosis: Diagnosis) -> int:
    """The steps after which the course of the training repeats: an epoch, or the longest rhythm."""
    rhythms = [round(one.every_steps) for one in diagnosis.rhythms if one.part != "epoch start"]
    return max([_epoch(diagnosis), *rhythms])


def _evaluations_apart(diagnosis: Diagnosis) -> int:
    """Steps from one evaluation to the next: what a remedy saves there shows in whole rounds only."""
    table = diagnosis.loop.table if diagnosis.loop is not None else diagnosis.outside
    return round(sum(table.steps) / max(1, diagnosis.whole.evaluations)) if table is not None else 0


def _epoch(diagnosis: Diagnosis) -> int:
    """Steps of an epoch that was seen whole; 0 where none was."""
    lengths: Sequence[int] = diagnosis.loop.epochs.batches[:-1] if diagnosis.loop is not None else []
    return max(lengths, default=0)


def _slots(diagnosis: Diagnosis, arm: Arm) -> int:
    """Batches that the loader may hold in advance under an arm."""
    loader = diagnosis.loader
    workers, prefetch = (loader.num_workers, loader.prefetch_factor or 2) if loader is not None else (0, 2)
    for one in arm.treatments:
        if one.name == "loader":
            arguments = one.options.get("arguments", {})
            workers = int(arguments.get("num_workers", workers) or 0)
            prefetch = int(arguments.get("prefetch_factor", prefetch) or 2)
    return workers * prefetch
