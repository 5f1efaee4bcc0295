"""Finds the traces that profilers left in the run's folder, one for each process at most."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..model.profile import Gap
from .rows import Diary
from .trace import TraceTable, read_window

BYTES_AT_MOST = 256 << 20  # of a run: four seconds to read; ranks are many, and much alike


@dataclass(frozen=True)
class Traced:
    """A trace that was read, and the number of the loader whose loop it shows, 0 = of none."""

    loader: int
    table: TraceTable


def read_traces(diaries: list[Diary], folder: Path | None) -> dict[int, Traced]:
    """By process: the first of its traces that holds whole steps."""
    found: dict[int, Traced] = {}
    left = BYTES_AT_MOST
    if folder is None:
        return found
    for diary in diaries:
        for fact in (fact for fact in diary.facts if fact.get("fact") == "trace"):
            file = folder / os.path.basename(str(fact.get("file")))
            left -= os.path.getsize(file) if os.path.isfile(file) else 0
            if left < 0 or diary.pid in found:
                break
            table = read_window(file)
            if table is not None:
                loader = fact.get("loader")
                found[diary.pid] = Traced(loader if isinstance(loader, int) else 0, table)
    return found


def find_untraced(diaries: list[Diary], traces: dict[int, Traced]) -> list[Gap]:
    """Profilers' windows that came to nothing, all of them; the first process that knows says why."""
    whys = [str(diary.first("trace_refused").get("why", "")) for diary in diaries]
    if any(diary.first("trace") for diary in diaries):
        whys.append(
            "the trace holds no two whole steps, or is too large to be read, or times the device by a clock "
            "that disagrees with the host's"
        )
    why = next((one for one in whys if one), "")
    if traces or not why:
        return []
    do = "run again without another profiler, and with room under TMPDIR"
    return [Gap("kernels", f"what the device did in a step is not known: {why}", do)]
