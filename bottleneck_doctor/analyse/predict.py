"""Turns a Change into a predicted speedup with the interval that the model has earned."""

from __future__ import annotations

from dataclasses import fields, replace
from math import exp, log

from ..model.diagnosis import Change, Diagnosis, Scenario
from ..model.report import Speedup
from .replay import SETTINGS, apply, step_seconds

# The error that even a prediction keeps whose replay fits: what intervals needed in docs/accuracy.md.
FLOORS = {"replay": 0.2, "amdahl": 0.2, "calibrated": 0.3, "bound": 0.4}
SMALL = 0.3  # share of that error that even a tiny predicted effect keeps
# Of the rest of a step, what goes with all that is cured: its caches, allocator and threads were disturbed by
# it (ours: of 45 twins without more workers promises are 18 % off without it, 12 % with it; median).
DISTURBED = 0.13
STORED_SHARE = 0.3  # of a batch's making, from which storage decides what more workers bring (ours)


def step_after(scenario: Scenario, change: Change) -> float:
    """Predicted seconds per step."""
    return step_seconds(apply(change, scenario))


def predict(diagnosis: Diagnosis, change: Change, basis: str = "replay") -> Speedup:
    """Speedup of the steady step; the interval widens with the replay's misfit and with the effect's size.

    Where strangers hold cores, the interval also spans what happens when they leave; and what the replay
    cannot explain of the measured step may go with the change, or stay.
    """
    scenario = diagnosis.scenario
    assert scenario is not None, "a prediction needs a steady window"
    likely = speedup_of(scenario, change)
    free = scenario if change.strangers is not None else replace(scenario, strangers=0.0)
    alone = speedup_of(free, change)
    all_gone = diagnosis.step_s / max(step_after(scenario, change), 1e-12)
    cautious = _if_storage_yields_little(diagnosis, change, likely)
    ends = (likely, alone, all_gone)
    return widened(diagnosis, min(*ends, cautious), likely, max(ends), basis)


def speedup_of(scenario: Scenario, change: Change) -> float:
    """Step time over predicted step time."""
    speedup = step_seconds(scenario) / max(step_after(scenario, change), 1e-12)
    same = all(getattr(change, name) is None for name in SETTINGS)
    works = change.straggler == 1.0  # who only waits for a slower rank disturbs nothing
    return relieved(speedup) if same and works and scenario.workers == 0 else speedup


def relieved(speedup: float) -> float:
    """The speedup with what the rest of the step gains where the loop no longer does what slowed it down."""
    return speedup / (1 - DISTURBED * max(0.0, 1 - 1 / max(speedup, 1e-9)))


def _if_storage_yields_little(diagnosis: Diagnosis, change: Change, likely: float) -> float:
    """More workers read more at once; that storage serves more than twice as much as now was not seen."""
    scenario, inputs = diagnosis.scenario, diagnosis.inputs
    stored = inputs.storage >= STORED_SHARE * inputs.wall
    if (
        scenario is None
        or scenario.streams
        or scenario.served
        or not stored
        or (change.workers or 0) <= scenario.workers
    ):
        return likely
    reading = max(1, scenario.workers) * inputs.storage / max(inputs.wall, 1e-12)
    narrow = replace(change, streams=2 * max(1.0, reading))
    return step_seconds(scenario) / max(step_after(scenario, narrow), 1e-12)


def widened(diagnosis: Diagnosis, low: float, likely: float, high: float, basis: str) -> Speedup:
    """The interval with the model's own error around it, however the three numbers were come by."""
    error = max(FLOORS[basis], min(1.0, diagnosis.model_error))
    size = SMALL + (1 - SMALL) * min(1.0, abs(log(max(likely, 1e-9))) / log(2))
    width = exp(error * size)
    return Speedup(low / width, likely, high * width, basis)


def merge(first: Change, second: Change) -> Change:
    """Both changes together: settings of the later one win, a cost is scaled by the stronger of the two."""
    values = {}
    for one in fields(Change):
        mine, other = getattr(first, one.name), getattr(second, one.name)
        if one.name in SETTINGS:
            values[one.name] = mine if other is None else other
        else:
            values[one.name] = min(mine, other) if max(mine, other) <= 1 else max(mine, other)
    return Change(**values)
