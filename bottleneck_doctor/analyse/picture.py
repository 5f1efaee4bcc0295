"""Gathers what is drawn of a run from its diagnosis."""

from __future__ import annotations

from ..model.diagnosis import Diagnosis
from ..model.picture import Picture
from .call_paths import call_paths
from .course import course_of
from .lanes import lanes_of


def picture_of(diagnosis: Diagnosis) -> Picture:
    """Total: any diagnosis has a picture, which may be empty."""
    return Picture(course_of(diagnosis), lanes_of(diagnosis), call_paths(diagnosis.profile))
