"""What workers take of the cores: by what they compute, and by threads that libraries start inside them."""

from __future__ import annotations

from ..model.diagnosis import Inputs, Scenario
from .replay import step_seconds

OTHERS_SHARE = 0.2  # of a worker's CPU in threads that it did not ask for [catalogue F05]
QUEUE_SHARE = 0.25  # of a fetch spent waiting for a core [catalogue F05]


def pool_cpu(inputs: Inputs, serialise: float) -> float:
    """CPU per batch of a worker's other threads; the one that feeds the pipe is known and taken off."""
    return max(0.0, inputs.other_cpu - serialise)


def crowding(inputs: Inputs, workers: int, serialise: float) -> float:
    """CPU that a batch costs its whole worker over that of the fetching thread alone, where several workers'
    pools crowd the cores; 1 where they do not: idle cores may well be used by a pool."""
    pool = pool_cpu(inputs, serialise)
    if workers < 2 or inputs.cpu <= 0 or inputs.wall <= 0:
        return 1.0
    if pool < OTHERS_SHARE * (inputs.cpu + pool) or inputs.queue < QUEUE_SHARE * inputs.wall:
        return 1.0
    return 1 + pool / inputs.cpu


def busy_workers(scenario: Scenario) -> float:
    """How many cores the workers keep busy."""
    if not scenario.workers or not scenario.works:
        return 0.0
    batch = sum(one.on_core for one in scenario.works) / len(scenario.works) + scenario.serialise
    return min(scenario.workers, batch / step_seconds(scenario))
