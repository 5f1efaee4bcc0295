"""Draws who is late when: each rank's time outside of exchanges against the median one's, over time.

All ranks end a step at the exchange: the clock of one tells when all of them did.
"""

from __future__ import annotations

from itertools import accumulate
from statistics import fmean, median_low

from ..model.loops import RankSteps
from ..model.picture import RankMap
from ..model.profile import Profile
from .ranks import aligned, all_ranks, exchanging, longest_loops, sleep_in_exchanges, sums_of, without

COLUMNS_AT_MOST = 96
ROWS_AT_MOST = 32  # of more ranks, those furthest from the median one are drawn


def rank_map(profile: Profile) -> RankMap | None:
    """None for one rank, where steps cannot be aligned, or where no loop slept in an exchange: on an
    accelerator a kernel waits instead of the loop, and all ranks look alike."""
    ranks = all_ranks(profile)
    edges, keep = aligned(ranks, COLUMNS_AT_MOST)
    if not keep or not sleep_in_exchanges(ranks):
        return None
    every = list(range(len(edges) - 1))
    owns = [without(sums_of(one, edges, every), "exchange_s") for one in ranks]
    middle = [median_low(column) for column in zip(*owns, strict=True)]
    ratios = [
        [mine / usual if place in keep and usual > 0 else None
         for place, (mine, usual) in enumerate(zip(own, middle, strict=True))]
        for own in owns
    ]  # fmt: skip
    distances = [abs(fmean([one - 1 for one in row if one is not None] or [0.0])) for row in ratios]
    far = sorted(range(len(ranks)), key=lambda place: -distances[place])[:ROWS_AT_MOST]
    shown = sorted(far, key=lambda place: ranks[place].rank or 0)
    several = len({one.host for one in ranks}) > 1
    names = [_name(ranks[place], several) for place in shown]
    ends_s = _ends_s(profile, ranks, edges)
    return RankMap(names, edges, ends_s, [ratios[place] for place in shown], len(ranks) - len(shown))


def _ends_s(profile: Profile, ranks: list[RankSteps], edges: list[int]) -> list[float]:
    """When those steps ended, by a rank of this machine, in seconds since the run began."""
    here = longest_loops(profile).values() if profile.elsewhere else exchanging(profile)  # as all_ranks
    pids = {rank.pid for rank in ranks}
    table = next(loop.table for loop in here if loop.pid in pids)
    ends = dict(zip(accumulate(table.steps), table.t, strict=True))
    return [ends[edge] for edge in edges]


def _name(one: RankSteps, several_hosts: bool) -> str:
    rank = f"rank {one.rank}" if one.rank is not None else f"process {one.pid}"
    return f"{rank}, {one.host}" if several_hosts and one.host else rank
