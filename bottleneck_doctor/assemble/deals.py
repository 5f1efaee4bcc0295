"""Which batch a worker's n-th fetch made: a loader deals its batches out in turn, or it cannot be known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..agent import wire
from ..model.profile import Loader
from .arrivals import Iteration
from .rows import Diary


@dataclass(frozen=True)
class Deal:
    """The batches of one pass as its workers got them: the n-th fetch of worker w is batch (n - 1) x workers
    + w of the pass, ``base`` batches of the loop having gone before. ``before`` = fetches that the process
    had made by then."""

    begin: int
    base: int
    workers: int
    worker: int
    before: int
    batches: int

    def batch(self, number: int) -> int | None:
        """The batch, counted over the whole loop; None for one that never arrived."""
        place = (number - self.before - 1) * self.workers + self.worker
        return self.base + place if 0 <= place < self.batches else None


Deals = dict[int, list[Deal]]  # by the worker's process, in order of begin


def bases(group: list[Iteration]) -> dict[int, int]:
    """How many batches of a loop arrived before each of its iterations."""
    found, before = {}, 0
    for one in group:
        found[one.number] = before
        before += one.batches
    return found


def read_deals(
    diary: Diary, group: list[Iteration], loader: Loader | None, made: Mapping[int, int] | None = None
) -> Deals:
    """Who got which batches in each pass of a loop; empty where the order is not certain, as batches are
    handed over as they come. ``made`` = how many fetches each worker process is known to have made: where
    each iterates through the data for itself, turns are kept until the first may have run dry, and
    what it then adds up to over several passes is not known."""
    runs_dry = loader is not None and loader.dataset_kind != "map"
    if loader is None or not loader.in_order or (runs_dry and loader.persistent_workers):
        return {}
    crews: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for row in diary.of(wire.WORKERS):
        crews.setdefault((row.t, row.thing), []).append((row.a, row.b))
    begun = {t: crew for (t, _), crew in crews.items()}
    base, deals = bases(group), Deals()
    broken: set[int] = set()
    for one in group:
        crew = begun.get(one.begin, [])
        least = min(((made or {}).get(pid, 0) for pid, _ in crew), default=0) * len(crew)
        batches = min(one.batches, least) if runs_dry else one.batches
        for pid, worker in crew:
            known = deals.setdefault(pid, [])
            if pid not in broken:
                before = known[-1].before + _dealt(known[-1]) if known else 0
                known.append(Deal(one.begin, base[one.number], len(crew), worker, before, batches))
        if one.end is None or one.end.b != 1:  # left early: what was made ahead and thrown away is not known
            broken.update(pid for pid, _ in crew)
    return deals


def _dealt(deal: Deal) -> int:
    """How many batches of a whole pass one worker makes."""
    return max(0, -(-(deal.batches - deal.worker) // deal.workers))


def batch_of(deals: Deals, pid: int, begin: int, number: int) -> int | None:
    """The batch that this fetch of a process made, if that is certain."""
    deal = next((one for one in reversed(deals.get(pid, [])) if one.begin <= begin), None)
    return deal.batch(number) if deal is not None else None
