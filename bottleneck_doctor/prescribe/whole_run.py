"""Says what a faster step brings the whole run, where that is much less than it brings the step."""

from __future__ import annotations

from ..analyse.whole import in_run
from ..model.diagnosis import Diagnosis, Finding
from ..model.report import Evidence
from .rank import WORTH, Offer

MUCH = 0.8  # of the run in training steps: with more of it the two gains are alike (ours)
SOURCE = "training steps over the run's length"


def in_whole_run(diagnosis: Diagnosis, finding: Finding, ranked: list[Offer]) -> list[Evidence]:
    """One line about the best remedy for the step, if it is this finding's; none where training is nearly
    all of the run.

    In a short profiling run the start weighs more than it will in the training that comes after it.
    """
    whole = diagnosis.whole
    best = next((offer for offer in ranked if offer.cure.scope == "step"), None)
    if (
        best is None
        or best.finding is not finding
        or not 0 < whole.training_s < MUCH * whole.run_s
        or best.told.likely is None
        or best.told.likely < WORTH
    ):
        return []
    text = f"gain of this whole run, with start-up and evaluation as they are, by {best.cure.id}"
    return [Evidence(text, "run_speedup", in_run(whole, best.told.likely), SOURCE)]
