"""Counts how predictions have held: how many, how many inside their interval, how far off."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ..model.proof import PredictionTally, RecordedPrediction, TrackRecord


def track(path: str, kept: Sequence[RecordedPrediction]) -> TrackRecord:
    """Over all and per remedy. Of a job that was proven again and again the newest counts: to say the same of
    the same script a hundred times, as CI does, is no hundred predictions."""
    newest = {(one.machine, one.job, one.remedy): one for one in kept}
    remedies = sorted({one.remedy for one in newest.values()})
    each = {name: tally([one for one in newest.values() if one.remedy == name]) for name in remedies}
    return TrackRecord(path, tally(list(newest.values())), each)


def tally(kept: Sequence[RecordedPrediction]) -> PredictionTally:
    """Inside: the likely measured speedup lies within the predicted low to high, as in docs/accuracy.md."""
    errors = [abs(one.predicted[1] / one.measured[1] - 1) for one in kept if one.measured[1] > 0]
    inside = sum(one.predicted[0] <= one.measured[1] <= one.predicted[2] for one in kept)
    return PredictionTally(len(kept), inside, median(errors) if errors else None)
