"""How ranks wait for each other: the exchange itself, and the slower ones. Only durations are compared.

An exchange ends for all ranks at about the same time, so who comes last waits least. In each step, what even
the rank that waits least waits for is the exchange; what another rank waits beyond that is for slower ranks:
for those that have more to do, and for those that had no core.

On accelerators the loop's thread does not wait for an exchange, a kernel spins: there the profiled steps of
each rank's device are compared.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import fmean
from typing import TypeVar

from ..model.device import DeviceWindow
from ..model.loops import Loop, Outside
from ..model.profile import Profile

Beat = Loop | Outside  # a loop of one rank, with or without a loader
AnyBeat = TypeVar("AnyBeat", Loop, Outside)
SIMILAR = 0.9  # of the steps of the longest loop, from which another rank's loop is the same loop
COMPARED_AT_MOST = 2048  # stretches of steps; a longer run is compared in longer ones
COMPARED_AT_LEAST = 8  # aligned stretches, or nothing is said about who waits for whom (ours)
TOGETHER = 0.8  # of the longest rank's profiled step, or they do not wait for each other (ours)
SET_OUT = 10  # steps that lazy set-up takes; ranks are not compared in them [analyse/steady.py]


@dataclass(frozen=True)
class Balance:
    """Seconds per step. ``slept`` = what each rank, by pid, sleeps in exchanges; ``exchange`` = what the rank
    that waits least does; ``behind`` = what each sleeps beyond that for ranks that have more to do (the rest
    is for ranks that had no core). ``busy`` = its step without any of it and without waiting for a core.
    ``uneven`` = the slowest rank's busy time over the mean one's, each step for itself; ``slowest`` = the
    share of stretches in which the rank that is slowest most often was so, None = too few steps tell;
    ``queued`` = what the mean rank waits for a core. ``missing`` = ranks not seen."""

    exchange: float
    slept: dict[int, float]
    behind: dict[int, float]
    busy: dict[int, float]
    uneven: float
    slowest: float | None
    queued: float
    missing: int

    def shares(self, pid: int) -> tuple[float, float]:
        """The parts of one rank's exchanges that are the exchange itself, and waiting for slower ranks."""
        whole = self.slept.get(pid, 0.0)
        return (self.exchange / whole, self.behind.get(pid, 0.0) / whole) if whole > 0 else (1.0, 0.0)


def exchanging(profile: Profile) -> list[Beat]:
    """The loops of all ranks that train together, one a process: empty where nothing is exchanged."""
    training = [loop for loop in profile.loops if loop.role == "train" and loop.table.t]
    loops: list[Beat] = [*training] or [*profile.outside]
    found = [one for one in loops if any(_column(one, "exchange_s"))]
    longest: dict[int, Beat] = {}
    for one in sorted(found, key=_steps):
        longest[one.pid] = one
    most = max(map(_steps, longest.values()), default=0)
    return [one for one in longest.values() if _steps(one) >= SIMILAR * most]


def compare(profile: Profile) -> Balance | None:
    """Who waits for whom; None on one rank, or where too few steps can be aligned."""
    ranks = exchanging(profile)
    if len(ranks) < 2:
        return _on_devices(profile)
    edges = _edges(ranks)
    if len(edges) <= COMPARED_AT_LEAST:
        return None
    waits = {one.pid: _stretched(one, _column(one, "exchange_s"), edges) for one in ranks}
    busy = {one.pid: _stretched(one, _busy(one), edges) for one in ranks}
    keep = _kept(ranks, edges)
    if len(keep) < COMPARED_AT_LEAST:
        return None
    least = {place: min(wait[place] for wait in waits.values()) for place in keep}
    last = Counter(min(waits, key=lambda pid: waits[pid][place]) for place in keep)
    steps = sum(edges[place + 1] - edges[place] for place in keep)
    exchange = sum(least.values()) / steps
    slept = {pid: sum(wait[place] for place in keep) / steps for pid, wait in waits.items()}
    worked = {pid: sum(own[place] for place in keep) / steps for pid, own in busy.items()}
    most = sum(max(own[place] for own in busy.values()) for place in keep) / steps
    return Balance(
        exchange=exchange,
        slept=slept,
        behind={pid: _behind(pid, waits, busy, keep) / steps for pid in slept},
        busy=worked,
        uneven=most / max(fmean(worked.values()), 1e-12),
        slowest=last.most_common(1)[0][1] / len(keep),
        queued=fmean(sum(_column(one, "runq_s")) / max(1, _steps(one)) for one in ranks),
        missing=max(0, world_size(profile) - len(ranks)),
    )


def _on_devices(profile: Profile) -> Balance | None:
    """Who waits for whom in the profiled steps, which are the same ones on all ranks."""
    windows = _windows(profile)
    longest = max((one.wall_s for one in windows.values()), default=0.0)
    if len(windows) < 2 or min(one.wall_s for one in windows.values()) < TOGETHER * longest:
        return None
    slept = {pid: one.collective_s for pid, one in windows.items()}
    busy = {pid: one.wall_s - one.collective_s for pid, one in windows.items()}
    least, most = min(slept.values()), max(busy.values())
    return Balance(
        exchange=least,
        slept=slept,
        behind={pid: min(slept[pid] - least, most - busy[pid]) for pid in windows},
        busy=busy,
        uneven=most / max(fmean(busy.values()), 1e-12),
        slowest=None,
        queued=0.0,
        missing=max(0, world_size(profile) - len(windows)),
    )


def _windows(profile: Profile) -> dict[int, DeviceWindow]:
    """The profiled steps of each rank's device, by pid; empty where nothing is exchanged in them."""
    devices = [one for one in (profile.device, *profile.other_devices) if one is not None]
    found = {one.pid: one.window for one in devices if one.window is not None}
    return found if world_size(profile) > 1 and any(one.collective_s for one in found.values()) else {}


def world_size(profile: Profile) -> int:
    """How many ranks there are on all machines, as far as any process knows."""
    known = [one.world_size or 1 for one in profile.processes]
    return max(known, default=1)


def pick(profile: Profile, ranks: Sequence[AnyBeat], data_s: Sequence[float]) -> AnyBeat:
    """The rank that a report is about: the one that waits most, for data (``data_s``, seconds of each rank)
    or for the others, whichever tells the ranks further apart. Without any exchange, for data."""
    slept = [sum(_column(one, "exchange_s")) for one in ranks]
    windows = _windows(profile)
    if not any(slept) and all(one.pid in windows for one in ranks):
        slept = [windows[one.pid].collective_s * _steps(one) for one in ranks]
    telling = data_s if max(data_s) - min(data_s) >= max(slept) - min(slept) else slept
    return ranks[telling.index(max(telling))]


def exchange_shares(profile: Profile, pid: int | None) -> tuple[float, float]:
    """The parts of a rank's exchanges that are the exchange itself, and waiting for slower ranks; all of it
    the exchange where that cannot be told. What is left is waiting for ranks that had no core."""
    balance = compare(profile) if pid is not None else None
    return balance.shares(pid) if balance is not None and pid is not None else (1.0, 0.0)


def _behind(pid: int, waits: dict[int, list[float]], busy: dict[int, list[float]], keep: list[int]) -> float:
    """What a rank slept beyond the least, as far as another had more to do in the same stretch."""
    total = 0.0
    for place in keep:
        least = min(wait[place] for wait in waits.values())
        more = max(own[place] for own in busy.values()) - busy[pid][place]
        total += min(waits[pid][place] - least, more)
    return total


def _column(one: Beat, name: str) -> list[float]:
    table = one.table if isinstance(one, Loop) else one
    column = getattr(table, name)
    return [value or 0.0 for value in column] + [0.0] * (len(table.t) - len(column))


def _busy(one: Beat) -> list[float]:
    """Each row's time without exchanges and without waiting for a core."""
    columns = (_column(one, name) for name in ("wall_s", "exchange_s", "runq_s"))
    return [max(0.0, wall - slept - queue) for wall, slept, queue in zip(*columns, strict=True)]


def _counts(one: Beat) -> list[int]:
    return one.table.steps if isinstance(one, Loop) else one.steps


def _steps(one: Beat) -> int:
    return sum(_counts(one))


def _edges(ranks: Sequence[Beat]) -> list[int]:
    """Step numbers at which every rank's rows begin anew, as far apart as the limit asks for."""
    shared = set.intersection(*(set(accumulate(_counts(one))) for one in ranks))
    edges = sorted(edge for edge in shared if edge > SET_OUT)
    return edges[:: -(-len(edges) // COMPARED_AT_MOST) or 1]


def _stretched(one: Beat, column: list[float], edges: list[int]) -> list[float]:
    """Sums of a column over the stretches between the edges."""
    totals = dict(zip(accumulate(_counts(one)), accumulate(column), strict=True))
    return [totals[end] - totals[begin] for begin, end in pairwise(edges)]


def _kept(ranks: Sequence[Beat], edges: list[int]) -> list[int]:
    """The stretches in which no rank's steps were set aside."""
    bad: set[int] = set()
    for one in ranks:
        if isinstance(one, Loop):
            ends = accumulate(one.table.steps)
            bad |= {end for end, why in zip(ends, one.table.set_aside, strict=True) if why}
    marks = sorted(bad)
    counts = [bisect_right(marks, edge) for edge in edges]
    return [place for place, (before, after) in enumerate(pairwise(counts)) if before == after]
