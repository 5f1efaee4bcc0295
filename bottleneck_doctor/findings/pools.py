"""Whether those who make batches crowd the cores: what they do is then not known to be slow itself."""

from __future__ import annotations

from ..analyse.causes import too_many_feeders
from ..analyse.crowding import crowding
from ..model.diagnosis import Diagnosis
from ..model.report import Evidence
from .advice import waits


def crowded(diagnosis: Diagnosis) -> bool:
    """Cores are full of threads in each other's way: more workers or cores are not the first cure."""
    loader, scenario = diagnosis.loader, diagnosis.scenario
    if scenario is not None and too_many_feeders(scenario):
        return True
    if loader is None or scenario is None:
        return False
    if diagnosis.verdict.cause == "input.oversubscribed":
        return waits(diagnosis)  # else workers keep the model from its cores, and cost less if they do less
    return crowding(diagnosis.inputs, loader.num_workers, scenario.serialise) > 1.0


def crowd_evidence(diagnosis: Diagnosis) -> list[Evidence]:
    """How many threads and processes feed a loop without a loader, and what they take from it."""
    scenario = diagnosis.scenario
    if scenario is None or not scenario.feeders or diagnosis.step_s <= 0:
        return []
    share = scenario.crowded / diagnosis.step_s
    count = float(scenario.feeders)
    return [
        Evidence("threads and processes that feed the loop", "feeders", count, "stack samples"),
        Evidence(
            "share of the step for which they keep a core or the interpreter's lock from it",
            "held_share",
            share,
            "schedstat, stack samples",
        ),
    ]
