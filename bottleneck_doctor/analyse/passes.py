"""Follows how much of each epoch's data came from storage instead of memory."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from statistics import fmean

from ..model.fetches import FetchTable
from ..model.loops import Loop

BATCHES_AT_LEAST = 4  # sampled in an epoch, or it says nothing


@dataclass(frozen=True)
class Pass:
    """One epoch: bytes per batch that came from storage, and that the data set asked for by reading.

    ``read`` is zero for memory maps, which ask without reading.
    """

    stored: float
    read: float

    @property
    def missed(self) -> float | None:
        """Share of the bytes asked for that memory did not hold; readahead may fetch more than that."""
        return min(1.0, self.stored / self.read) if self.read > 0 else None


def passes_of(table: FetchTable, loop: Loop) -> list[Pass]:
    """The epochs of a loop, in order, as far as their bytes were counted."""
    rows: dict[int, list[tuple[int, int]]] = {}
    for t, stored, read in zip(table.t, table.storage_bytes, table.read_bytes, strict=False):
        if stored is not None and read is not None:
            epoch = max(0, bisect_right(loop.epochs.t, t) - 1)
            rows.setdefault(epoch, []).append((stored, read))
    known = [rows[epoch] for epoch in sorted(rows) if len(rows[epoch]) >= BATCHES_AT_LEAST]
    return [Pass(fmean([one[0] for one in each]), fmean([one[1] for one in each])) for each in known]
