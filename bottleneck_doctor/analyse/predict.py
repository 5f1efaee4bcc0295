"""Turns a Change into a predicted speedup, with an interval from the replay's measured error."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import exp, log

from ..model.diagnosis import Change, Diagnosis, Scenario
from ..model.report import Speedup
from .replay import SETTINGS, apply, step_seconds

WORTH = 1.03  # a remedy that brings less is not reported [contract], nor is a setting that much better
TRIFLE = 1 - 1 / WORTH  # of a step: less of it cannot bring what a remedy has to

WORKERS_AT_MOST = 32
PREFETCHES = (2, 4, 8)


@dataclass(frozen=True)
class LoaderSetting:
    """A loader setting with its predicted step time."""

    workers: int
    prefetch: int
    step_s: float

    @property
    def change(self) -> Change:
        """The setting as a change; persistent workers start no epoch anew."""
        return Change(workers=self.workers, prefetch=self.prefetch, startup=0.0)


def candidates(scenario: Scenario) -> list[int]:
    """Worker counts worth a replay: every small one, then steps up to where waiting could be hidden."""
    blocked = sum(work.storage + work.network + work.wait for work in scenario.works)
    busy = sum(work.on_core for work in scenario.works)
    reach = 2 * scenario.cores + (4 * scenario.cores + 12) * blocked / max(blocked + busy, 1e-12)
    top = max(scenario.workers, min(WORKERS_AT_MOST, round(reach)), 2)
    counts = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32]
    return sorted({count for count in counts if count <= top} | {scenario.workers} - {0})


def best_setting(scenario: Scenario) -> LoaderSetting:
    """The fewest workers within 3 % of the best predicted step; deeper prefetch only if it pays."""

    def setting(workers: int, prefetch: int) -> LoaderSetting:
        change = Change(workers=workers, prefetch=prefetch, startup=0.0)
        return LoaderSetting(workers, prefetch, step_after(scenario, change))

    tried = [setting(count, PREFETCHES[0]) for count in candidates(scenario)]
    least = min(one.step_s for one in tried)
    chosen = next(one for one in tried if one.step_s <= WORTH * least)
    for depth in PREFETCHES[1:]:
        deeper = setting(chosen.workers, depth)
        if deeper.step_s * WORTH < chosen.step_s:
            chosen = deeper
    return chosen


def best_split(scenario: Scenario, longer: float) -> tuple[int, int]:
    """(workers, threads of the model, fewer than now) with the shortest step, or nearly so and fewer workers;
    ``longer`` is what computing takes with one thread over what it takes now."""
    found = []
    for workers in candidates(scenario):
        for threads in sorted({1, max(1, int(scenario.cores) - workers)}):
            if threads < scenario.threads:
                step_s = step_after(scenario, split_change(scenario, workers, threads, longer))
                found.append((step_s, workers, threads))
    least = min(found)[0]
    _, workers, threads = next(one for one in found if one[0] <= WORTH * least)
    return workers, threads


def split_change(scenario: Scenario, workers: int, threads: int, longer: float) -> Change:
    """A change to so many workers and threads; computing takes longer by Amdahl's law."""
    shared = (longer - 1) / (1 - 1 / scenario.threads)
    compute = longer - shared * (1 - 1 / threads)
    return Change(workers=workers, threads=float(threads), compute=compute, startup=0.0)


# The error that even a prediction keeps whose replay fits: what intervals needed in docs/accuracy.md.
FLOORS = {"replay": 0.2, "amdahl": 0.2, "bound": 0.4}
SMALL = 0.3  # share of that error that even a tiny predicted effect keeps
# Of the rest of a step, what goes with all that is cured: its caches, allocator and threads were disturbed by
# it (chosen: of 45 twins without more workers promises are 18 % off without it, 12 % with it; median).
DISTURBED = 0.13


def step_after(scenario: Scenario, change: Change) -> float:
    """Predicted seconds per step."""
    return step_seconds(apply(change, scenario))


def predict(diagnosis: Diagnosis, change: Change, basis: str = "replay") -> Speedup:
    """Speedup of the steady step; the interval widens with the replay's misfit and with the effect's size.

    Where other processes use cores, the interval includes the case that they end. The part of the measured
    step that the replay cannot explain may go with the change, or stay.
    """
    scenario = diagnosis.scenario
    assert scenario is not None, "a prediction needs a steady window"
    likely = speedup_of(scenario, change)
    free = scenario if change.strangers is not None else replace(scenario, strangers=0.0)
    alone = speedup_of(free, change)
    all_gone = diagnosis.step_s / max(step_after(scenario, change), 1e-12)
    ends = (likely, alone, all_gone)
    return widened(diagnosis, min(ends), likely, max(ends), basis)


def speedup_of(scenario: Scenario, change: Change) -> float:
    """Step time over predicted step time."""
    speedup = step_seconds(scenario) / max(step_after(scenario, change), 1e-12)
    same = all(getattr(change, name) is None for name in SETTINGS)
    works = change.straggler == 1.0  # waiting for a slower rank disturbs nothing
    return relieved(speedup) if same and works and scenario.workers == 0 else speedup


def relieved(speedup: float) -> float:
    """The speedup with what the rest of the step gains where the loop no longer does what slowed it down."""
    return speedup / (1 - DISTURBED * max(0.0, 1 - 1 / max(speedup, 1e-9)))


def widened(diagnosis: Diagnosis, low: float, likely: float, high: float, basis: str) -> Speedup:
    """The interval, widened by the model's own error."""
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
