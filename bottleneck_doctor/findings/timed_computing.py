"""What was timed of a step's computing once the training had ended, where it is what was measured."""

from __future__ import annotations

from dataclasses import replace

from ..model.diagnosis import Change, Diagnosis, Proposal
from .timed import AGREES

NO_LOADER = ""  # whose rows these are: the model's
NOW = "now"
LAYERS = ("product", "convolution")


def times_as_fast(
    diagnosis: Diagnosis, subjects: tuple[str, ...], way: str, measured_s: float
) -> float | None:
    """How many times as fast these subjects are together in that way.

    ``None`` where one of them was not timed that way, or where the present way does not cost about the
    ``measured_s`` seconds per step that it cost in the training: then something else was timed.
    """
    present, other = ([seconds_of(diagnosis, subject, name) for subject in subjects] for name in (NOW, way))
    pairs = [(one, two) for one, two in zip(present, other, strict=True) if one is not None]
    whole = sum(one for one, _ in pairs)
    if measured_s <= 0 or not 1 / AGREES <= whole / measured_s <= AGREES:
        return None
    left = [two for _, two in pairs if two is not None]
    return whole / sum(left) if len(left) == len(pairs) and sum(left) > 0 else None


def seconds_of(diagnosis: Diagnosis, subject: str, way: str) -> float | None:
    """Seconds per step of one subject done one way; ``None`` where not timed."""
    wanted = (NO_LOADER, subject, way)
    known = diagnosis.profile.calibrations
    return next((one.seconds for one in known if (one.loader, one.subject, one.variant) == wanted), None)


def as_timed(cure: Proposal, change: Change) -> Proposal:
    """The cure with what was timed in place of its range."""
    return replace(cure, change=change, factor=None, most=None, basis="calibrated")
