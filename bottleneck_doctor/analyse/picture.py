"""Gathers what is drawn of a run from its diagnosis."""

from __future__ import annotations

from ..model.diagnosis import Diagnosis
from ..model.picture import Picture, Timeline
from .call_paths import call_paths


def picture_of(diagnosis: Diagnosis) -> Picture:
    """Total: any diagnosis has a picture, which may be empty."""
    return Picture(Timeline(diagnosis.profile.run.duration_s), stacks=call_paths(diagnosis.profile))
