"""Chooses the steps that are compared: after everybody's warm-up, enough for a sure mean, whole epochs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ..analyse.repeats import NORMAL_95
from ..model.diagnosis import Diagnosis
from ..model.proof import Arm, Span

LEAST = 60  # steady steps
LEAST_S = 2.0  # of them: shorter ones are lost in what a machine does now and then (ours)
ERROR = 0.015  # of the mean within a run: half of what lies between runs (ours)
WARMUP = 10  # steps [analyse/steady.WARMUP_STEPS]
SHORT = 2.0  # epochs no longer than so many times the steps needed are compared whole (ours)
FILLS = frozenset({"cache"})  # treatments that pay from the second epoch on


def span_of(diagnosis: Diagnosis, arms: Iterable[Arm]) -> Span:
    """The span for runs of these arms.

    Queues that are full at the start make the first steps cheap: what a treated loader may hold is warm-up.
    """
    known = diagnosis.quality.warmup_steps + diagnosis.quality.steady_steps
    treated = list(arms)
    wanted = _wanted(diagnosis)
    cycle = _cycle(diagnosis)
    if cycle and cycle <= SHORT * wanted:
        wanted = math.ceil(wanted / cycle) * cycle
    begin = max(WARMUP, *(2 * _slots(diagnosis, arm) for arm in treated), 0) if treated else WARMUP
    if any(one.name in FILLS for arm in treated for one in arm.treatments) and _epoch(diagnosis):
        begin = max(begin, _epoch(diagnosis) + WARMUP)
    begin = min(begin, max(1, known // 3)) if begin < known else begin
    return Span(begin, begin + wanted)


def _wanted(diagnosis: Diagnosis) -> int:
    """So many steps tell the mean well enough; no more than were watched."""
    steady = max(1, diagnosis.quality.steady_steps)
    metric = diagnosis.metrics.get("step_time_s")
    error = 0.0
    if metric is not None and metric.value and metric.low is not None and metric.high is not None:
        error = (metric.high - metric.low) / 2 / NORMAL_95 / metric.value
    for_error = steady * (error / ERROR) ** 2
    for_time = LEAST_S / diagnosis.step_s if diagnosis.step_s > 0 else 0.0
    return int(min(max(LEAST, for_error, for_time), max(LEAST, steady)))


def _cycle(diagnosis: Diagnosis) -> int:
    """The steps after which the training's course repeats: an epoch, or the longest rhythm within it."""
    rhythms = [round(one.every_steps) for one in diagnosis.rhythms if one.part != "epoch start"]
    return max([_epoch(diagnosis), *rhythms], default=0) if _short(diagnosis) else max(rhythms, default=0)


def _short(diagnosis: Diagnosis) -> bool:
    return 0 < _epoch(diagnosis) <= SHORT * _wanted(diagnosis)


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
