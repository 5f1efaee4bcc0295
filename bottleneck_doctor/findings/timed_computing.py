"""What ``bdoc run --calibrate`` timed of a step's computing, where it is what the training measured."""

from __future__ import annotations

from dataclasses import replace

from ..model.diagnosis import Change, Cure, Diagnosis
from .timed import AGREES

NO_LOADER = ""  # whose rows these are: the model's
TENSORS = ("product", "convolution")


def times_as_fast(
    diagnosis: Diagnosis, subjects: tuple[str, ...], way: str, measured_s: float, now: str = "now"
) -> float | None:
    """How many times as fast these subjects are together in that way.

    ``None`` where one of them was not timed that way, or where ``now`` does not cost about the
    ``measured_s`` seconds per step that it cost in the training: then something else was timed.
    """
    rows = _seconds(diagnosis)
    timed = [subject for subject in subjects if (subject, now) in rows]
    if not timed or any((subject, way) not in rows for subject in timed):
        return None
    present, other = (sum(rows[subject, name] for subject in timed) for name in (now, way))
    if measured_s <= 0 or other <= 0 or not 1 / AGREES <= present / measured_s <= AGREES:
        return None
    return present / other


def _seconds(diagnosis: Diagnosis) -> dict[tuple[str, str], float]:
    """Seconds per step by subject and way."""
    mine = [one for one in diagnosis.profile.calibrations if one.loader == NO_LOADER]
    return {(one.subject, one.variant): one.seconds for one in mine}


def as_timed(cure: Cure, change: Change) -> Cure:
    """The cure with what was timed in place of its range."""
    return replace(cure, change=change, factor=None, basis="calibrated")
