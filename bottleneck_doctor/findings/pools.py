"""Whether pools inside the workers crowd the cores: what workers do is then not known to be slow itself."""

from __future__ import annotations

from ..analyse.crowding import crowding
from ..model.diagnosis import Diagnosis


def crowded(diagnosis: Diagnosis) -> bool:
    """Cores are full of threads in each other's way: more workers or cores are not the first cure."""
    loader, scenario = diagnosis.loader, diagnosis.scenario
    if loader is None or scenario is None:
        return False
    if diagnosis.verdict.cause == "input.oversubscribed":
        return True
    return crowding(diagnosis.inputs, loader.num_workers, scenario.serialise) > 1.0
