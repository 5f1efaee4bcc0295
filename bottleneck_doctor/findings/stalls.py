"""What findings say of stalls that come back."""

from __future__ import annotations

from ..model.derived import Rhythm
from ..model.diagnosis import Diagnosis
from ..model.report import Evidence

TIMES = "step times"


def rhythm_of(diagnosis: Diagnosis, part: str) -> Rhythm | None:
    """The most expensive of the stalls that lie in this part of a step."""
    return next((one for one in diagnosis.rhythms if one.part == part), None)


def rhythm_evidence(diagnosis: Diagnosis, part: str) -> list[Evidence]:
    """At which distance they come, and how long each takes."""
    one = rhythm_of(diagnosis, part)
    if one is None:
        return []
    text = f"time that it takes, once in {round(one.every_steps)} steps"
    return [Evidence(text, "stall_s", one.each_s, TIMES)]
