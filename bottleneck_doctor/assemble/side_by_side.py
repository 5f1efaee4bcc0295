"""Which passes over one loader are its loop, where several of them were open at once: one after another."""

from __future__ import annotations

from .arrivals import Iteration


def one_after_another(group: list[Iteration]) -> list[Iteration]:
    """Of passes over one loader by one thread, those that make up its loop, in order of begin.

    ``zip(loader, loader)``, a loader built twice on one line, or an iterator kept aside for a sample now and
    then, are open side by side: a step has a batch of each. Passes that do not overlap are a row; the row
    with most batches is the loop, and the others are waited for in its steps, as other loaders are.
    """
    rows: list[list[Iteration]] = []
    for one in sorted(group, key=lambda one: one.begin):
        over = [row for row in rows if row[-1].finish <= one.begin]
        if over:
            max(over, key=lambda row: row[-1].finish).append(one)
        else:
            rows.append([one])
    return max(rows, key=lambda row: sum(one.batches for one in row), default=[])
