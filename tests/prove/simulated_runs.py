"""Runs of arms whose true speedups are known, on a machine that is noisy and drifts, a second each."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from bottleneck_doctor.model.proof import BASELINE, Arm, Attempt
from bottleneck_doctor.model.run import Treatment

BASE = Arm(BASELINE, "baseline", "as it is")


def remedy(name: str, *treatments: Treatment, scope: str = "step") -> Arm:
    """An arm that tries one remedy."""
    return Arm(name, "remedy", name, (name,), treatments or (Treatment(name),), scope=scope)


def measured(arm: str, step_s: float, error: float = 0.01, run_s: float = 1.0) -> Attempt:
    """A run that went well."""
    return Attempt(arm, "measured", "", step_s, step_s, error, 100, run_s)


@dataclass
class Machine:
    """``noise`` and ``drift`` of runs, as shares; ``budget_s`` in all; ``fates`` of those not measured."""

    gains: Mapping[str, float]
    noise: float = 0.02
    drift: float = 0.0
    budget_s: float = 15.0
    seed: int = 0
    fates: Mapping[str, str] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def run(self, arm: Arm) -> Attempt:
        """One second of it."""
        self.runs.append(arm.id)
        if arm.id in self.fates:
            return Attempt(arm.id, self.fates[arm.id], "as it was told to", run_s=1.0)
        gain = math.prod(self.gains.get(name, 1.0) for name in arm.remedies)
        level = self.drift * len(self.runs) + self.chance.gauss(0, self.noise)
        return measured(arm.id, 0.1 / gain * math.exp(level + self.chance.gauss(0, 0.01)))

    def left_s(self) -> float:
        """What is left of the budget."""
        return self.budget_s - len(self.runs)
