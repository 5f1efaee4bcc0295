"""Finds the traces that profilers left in the run's folder, one for each process at most."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .rows import Diary
from .trace import TraceTable, read_window

TRACES_AT_MOST = 16  # of a run: each takes up to a second to read


@dataclass(frozen=True)
class Traced:
    """A trace that was read, and the number of the loader whose loop it shows, 0 = of none."""

    loader: int
    table: TraceTable


def read_traces(diaries: list[Diary], folder: Path | None) -> dict[int, Traced]:
    """By process: the first of its traces that holds whole steps."""
    found: dict[int, Traced] = {}
    if folder is None:
        return found
    for diary in diaries:
        for fact in (fact for fact in diary.facts if fact.get("fact") == "trace"):
            if len(found) >= TRACES_AT_MOST or diary.pid in found:
                break
            table = read_window(folder / Path(str(fact.get("file"))).name)
            if table is not None:
                loader = fact.get("loader")
                found[diary.pid] = Traced(loader if isinstance(loader, int) else 0, table)
    return found
