"""Joins what several ``bdoc run`` saw of one training into one profile.

It is that of the rank which the report is about, with its machine's numbers; the steps of all other ranks
stand beside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from ..model.elsewhere import RankSteps
from ..model.errors import UsageError
from ..model.profile import Profile
from ..model.run import Gap
from .ranks import SIMILAR, longest_loops, pick_place, shared_edges, stretched, with_host
from .slow_ranks import slow_ranks

ELSEWHERE = 2**22  # process numbers from here on are none of this machine's [proc_sys_kernel(5): pid_max]
ROWS_AT_MOST = 256  # of each rank: a thousand ranks stay a profile of some ten MB


def merge(files: Sequence[str], read: Callable[[str], Profile]) -> Profile:
    """One profile of all ranks in ``files``. Each is read by itself and dropped again: of a thousand only
    their steps are kept. Raises ``UsageError`` where they are not of one training."""
    ranks = [one for file in files for one in _ranks(file, read(file))]
    ranks = _of_one_training(ranks)
    file = _told(ranks).file
    base = read(file)
    edges = shared_edges(ranks, ROWS_AT_MOST)
    others = [_between(one, edges) for one in ranks if one.file != file]
    elsewhere = [replace(one, pid=ELSEWHERE + place) for place, one in enumerate(others)]
    gaps = list(base.gaps)
    if len(edges) < 2:
        gaps.append(Gap("ranks", "their steps could not be aligned", "let all ranks train longer"))
    return replace(base, elsewhere=elsewhere, gaps=gaps)


def _told(ranks: list[RankSteps]) -> RankSteps:
    """The rank that the report is about: one that is late for what its own machine shows, its input or its
    cores; else the one that waits most."""
    held = next((one for one in slow_ranks(ranks)[:1] if one.cause != "work"), None)
    return held.rank if held else ranks[pick_place(ranks, [sum(one.wait_s) for one in ranks])]


def _ranks(file: str, profile: Profile) -> list[RankSteps]:
    """The ranks that one run watched, with how busy their machine was meanwhile."""
    if profile.elsewhere:
        raise UsageError(f"{file}: it is merged already; name the profiles that it was made of")
    return [replace(with_host(profile, one), file=file) for one in longest_loops(profile).values()]


def _of_one_training(ranks: list[RankSteps]) -> list[RankSteps]:
    """Those that went as far as the furthest. No rank may be there twice, and none unknown."""
    if not ranks:
        raise UsageError("no profile holds a training loop")
    files: dict[int, str] = {}
    for one in ranks:
        if one.rank is None:
            raise UsageError(f"{one.file}: no launcher and no process group told which rank it was")
        if one.rank in files:
            raise UsageError(f"rank {one.rank} is in {files[one.rank]} and in {one.file}: two trainings?")
        files[one.rank] = one.file
    most = max(sum(one.steps) for one in ranks)
    return [one for one in ranks if sum(one.steps) >= SIMILAR * most]


def _between(one: RankSteps, edges: list[int]) -> RankSteps:
    """Its rows from edge to edge; what comes before the first edge is a row that does not count."""
    if len(edges) < 2:
        return replace(one, steps=[], wall_s=[], wait_s=[], runq_s=[], exchange_s=[], aside=[])
    flags = stretched(one, [float(aside) for aside in one.aside], edges)
    return replace(
        one,
        steps=[edges[0], *(end - begin for begin, end in pairwise(edges))],
        wall_s=[0.0, *stretched(one, one.wall_s, edges)],
        wait_s=[0.0, *stretched(one, one.wait_s, edges)],
        runq_s=[0.0, *stretched(one, one.runq_s, edges)],
        exchange_s=[0.0, *stretched(one, one.exchange_s, edges)],
        aside=[True, *(flag > 0 for flag in flags)],
    )
