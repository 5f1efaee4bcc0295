"""Makes one profile of those that the ranks of a run left: one of theirs, with the steps of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ..model.errors import UsageError
from ..model.loops import RankSteps
from ..model.profile import Profile
from ..model.run import Gap
from .ranks import COLUMNS, SIMILAR, pick_place, shared_edges, slow_ranks, stretched, watched_ranks

ELSEWHERE = 2**22  # process numbers from here on are none of this machine's [proc_sys_kernel(5): pid_max]
MERGED = "ranks"  # of a gap: what a merged profile lacks
NAMED_AT_MOST = 8
ROWS_AT_MOST = 256  # of each rank: a thousand ranks stay a profile of some ten MB


def merge(files: Sequence[str], read: Callable[[str], Profile]) -> Profile:
    """One profile of all ranks in ``files``. Each is read by itself and dropped again: of a thousand only
    their steps are kept. Raises ``UsageError`` where they are not of one training."""
    by_file = {file: _ranks(file, read(file)) for file in files}
    ranks = _of_one_training([one for found in by_file.values() for one in found])
    together = {one.rank for one in ranks}
    short = [one for found in by_file.values() for one in found if one.rank not in together]
    file = _reported(ranks).file
    base = read(file)
    edges = shared_edges(ranks, ROWS_AT_MOST)
    others = [_between(one, edges) for one in ranks if one.file != file]
    elsewhere = [replace(one, pid=ELSEWHERE + place) for place, one in enumerate(others)]
    gaps = list(base.gaps)
    if empty := [file for file, found in by_file.items() if not found]:
        gaps.append(Gap(MERGED, f"no training loop is in {_some(empty)}"))
    if short:
        left = _some([f"{one.rank} ({one.ran} steps)" for one in short])
        gaps.append(Gap(MERGED, f"left out, having trained less than the others: {left}"))
    if len(edges) < 2:
        gaps.append(Gap(MERGED, "their steps could not be aligned", "let all ranks train longer"))
    return replace(base, elsewhere=elsewhere, gaps=gaps)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED_AT_MOST} more" if len(names) > NAMED_AT_MOST else ""
    return ", ".join(names[:NAMED_AT_MOST]) + more


def _reported(ranks: list[RankSteps]) -> RankSteps:
    """The rank that the report is about: one that is late for what its own machine shows, its input or its
    cores; else the one that waits most."""
    slowest = next(iter(slow_ranks(ranks) or ()), None)
    if slowest is not None and slowest.cause != "work":
        return slowest.rank
    return ranks[pick_place(ranks, [sum(one.wait_s) for one in ranks])]


def _ranks(file: str, profile: Profile) -> list[RankSteps]:
    """The ranks of one of the profiles."""
    if profile.elsewhere:
        raise UsageError(f"{file}: it is merged already; name the profiles that it was made of")
    return [replace(one, file=file) for one in watched_ranks(profile)]


def _of_one_training(ranks: list[RankSteps]) -> list[RankSteps]:
    """Those that went as far as the furthest. No rank may be there twice, and none unknown."""
    if not ranks:
        raise UsageError("no profile holds a training loop")
    files: dict[int, str] = {}
    for one in ranks:
        if one.rank is None:
            raise UsageError(f"{one.file}: no launcher and no process group gave its rank")
        if one.rank in files:
            raise UsageError(f"rank {one.rank} is in {files[one.rank]} and in {one.file}: two trainings?")
        files[one.rank] = one.file
    most = max(one.ran for one in ranks)
    return [one for one in ranks if one.ran >= SIMILAR * most]


def _between(one: RankSteps, edges: list[int]) -> RankSteps:
    """Its rows from edge to edge; what comes before the first edge is a row that does not count."""
    if len(edges) < 2:
        return replace(one, steps=[], wall_s=[], wait_s=[], runq_s=[], exchange_s=[], aside=[])
    columns: dict[str, Any] = {name: [0.0, *stretched(one, getattr(one, name), edges)] for name in COLUMNS}
    flags = stretched(one, [float(aside) for aside in one.aside], edges)
    steps = [edges[0], *(end - begin for begin, end in pairwise(edges))]
    return replace(one, steps=steps, aside=[True, *(flag > 0 for flag in flags)], **columns)
