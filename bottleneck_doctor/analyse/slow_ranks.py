"""Ranks that come later than the others step after step, and what they spend the time in."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low

from ..model.elsewhere import RankSteps, SlowRank
from .ranks import COMPARED_AT_LEAST, kept, shared_edges, stretched

BEYOND = 0.1  # of the median rank's time outside of exchanges, from which a rank is late (ours)
STEADILY = 0.8  # of the stretches, in which it is later than the median one (ours)
THROTTLED = 0.05  # of its quota's periods used up: that is why it had no core (ours)


def slow_ranks(ranks: Sequence[RankSteps]) -> list[SlowRank]:
    """The slowest first; none where steps cannot be aligned, or no rank is late."""
    edges = shared_edges(ranks) if len(ranks) > 1 else []
    keep = kept(ranks, edges) if len(edges) > 1 else []
    if len(keep) < COMPARED_AT_LEAST:
        return []
    steps = sum(edges[place + 1] - edges[place] for place in keep)
    sums = [_sums(one, edges, keep) for one in ranks]
    owns = [
        [wall - slept for wall, slept in zip(one["wall_s"], one["exchange_s"], strict=True)] for one in sums
    ]
    middle = [median_low(each) for each in zip(*owns, strict=True)]
    typical = {name: median_low(sum(one[name]) for one in sums) for name in ("wait_s", "runq_s")}
    usual, found = sum(middle), []
    for rank, columns, own in zip(ranks, sums, owns, strict=True):
        beyond = sum(own) - usual
        later = sum(mine > other for mine, other in zip(own, middle, strict=True)) / len(keep)
        if beyond < BEYOND * usual or later < STEADILY:
            continue
        data, queue = (sum(columns[name]) - typical[name] for name in ("wait_s", "runq_s"))
        parts = {"data": data, "cores": queue, "work": beyond - data - queue}
        cause = max(parts, key=lambda name: parts[name])
        part = min(parts[cause], beyond)
        if cause == "cores" and (rank.throttled or 0.0) >= THROTTLED:
            cause = "quota"
        found.append(SlowRank(rank, sum(own) / steps, beyond / steps, cause, part / steps))
    return sorted(found, key=lambda one: -one.beyond_s)


COLUMNS = ("wall_s", "exchange_s", "wait_s", "runq_s")


def _sums(one: RankSteps, edges: list[int], keep: list[int]) -> dict[str, list[float]]:
    columns = {name: stretched(one, getattr(one, name), edges) for name in COLUMNS}
    return {name: [sums[place] for place in keep] for name, sums in columns.items()}
