"""Searches the loader settings that the replay likes best; no rule of thumb."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.diagnosis import Change, Scenario
from .predict import step_after
from .replay import step_seconds

CLOSE_ENOUGH = 1.03  # the smallest worker count within 3 % of the best is taken [catalogue F01]
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
    """Worker counts worth asking about: every small one, then steps up to where waiting could be hidden."""
    blocked = sum(work.storage + work.network + work.wait for work in scenario.works)
    busy = sum(work.on_core for work in scenario.works)
    reach = 2 * scenario.cores + (4 * scenario.cores + 12) * blocked / max(blocked + busy, 1e-12)
    top = max(scenario.workers, min(WORKERS_AT_MOST, round(reach)), 2)
    counts = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32]
    return sorted({count for count in counts if count <= top} | {scenario.workers} - {0})


def best_setting(scenario: Scenario) -> LoaderSetting:
    """The fewest workers within 3 % of the best predicted step; deeper prefetch only if it pays."""
    tried = [LoaderSetting(count, 2, step_after(scenario, Change(workers=count, prefetch=2, startup=0.0)))
             for count in candidates(scenario)]  # fmt: skip
    least = min(setting.step_s for setting in tried)
    chosen = next(setting for setting in tried if setting.step_s <= CLOSE_ENOUGH * least)
    for depth in PREFETCHES[1:]:
        deeper = LoaderSetting(
            chosen.workers,
            depth,
            step_after(scenario, Change(workers=chosen.workers, prefetch=depth, startup=0.0)),
        )
        if deeper.step_s * CLOSE_ENOUGH < chosen.step_s:
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
    _, workers, threads = next(one for one in found if one[0] <= CLOSE_ENOUGH * least)
    return workers, threads


def split_change(scenario: Scenario, workers: int, threads: int, longer: float) -> Change:
    """So many workers beside so many threads, whose computing takes longer by Amdahl's law."""
    shared = (longer - 1) / (1 - 1 / scenario.threads)
    compute = longer - shared * (1 - 1 / threads)
    return Change(workers=workers, threads=float(threads), compute=compute, startup=0.0)


def doubled(scenario: Scenario) -> float:
    """Speedup that twice the workers would bring: the honest answer to the usual advice."""
    more = max(2, 2 * scenario.workers)
    return step_seconds(scenario) / max(step_after(scenario, Change(workers=more)), 1e-12)
