"""How ranks wait for each other, who is late when, and one profile of those that the ranks left.

Only durations are compared.

An exchange ends for all ranks at about the same time, so who comes last waits least. In each step, what even
the rank that waits least waits for is the exchange; what another rank waits beyond that is for slower ranks:
for those that have more to do, and for those that had no core.

On accelerators the loop's thread does not wait for an exchange, a kernel spins: there the profiled steps of
each rank's device are compared.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from statistics import fmean, median_low
from typing import Any

from ..model.device import DeviceWindow
from ..model.errors import UsageError
from ..model.loops import Loop, RankSteps, SlowRank
from ..model.picture import RankMap
from ..model.profile import Profile
from ..model.run import Gap
from .host import measure_host
from .shares import LITTLE, NEARLY_ALL, NOTICED

SIMILAR = 0.9  # of the steps of the longest loop, from which another rank's loop is the same loop
COMPARED_AT_MOST = 2048  # stretches of steps; a longer run is compared in longer ones
COMPARED_AT_LEAST = 8  # aligned stretches; with fewer, ranks are not compared (chosen)
COLUMNS = ("wall_s", "exchange_s", "wait_s", "runq_s")
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


def exchanging(profile: Profile) -> list[Loop]:
    """The loops of all ranks that train together, one a process: empty where nothing is exchanged."""
    found = longest_loops(profile, lambda one: any(_column(one, "exchange_s")))
    most = max(map(_steps, found.values()), default=0)
    return [one for one in found.values() if _steps(one) >= SIMILAR * most]


def longest_loops(profile: Profile, wanted: Callable[[Loop], bool] = lambda one: True) -> dict[int, Loop]:
    """The longest training loop of each process, by pid."""
    training = [loop for loop in profile.loops if loop.role == "train" and loop.table.t]
    loops = training or [one for one in profile.outside if one.table.t]
    return {one.pid: one for one in sorted(filter(wanted, loops), key=_steps)}


def compare(profile: Profile) -> Balance | None:
    """Who waits for whom; None on one rank, or where too few steps can be aligned."""
    ranks = all_ranks(profile)
    if not sleep_in_exchanges(ranks):
        return on_devices(profile)
    edges, keep = aligned(ranks)
    if len(keep) < COMPARED_AT_LEAST:
        return None
    steps = sum(edges[place + 1] - edges[place] for place in keep)
    sums = {one.pid: sums_of(one, edges, keep) for one in ranks}
    waits = {pid: one["exchange_s"] for pid, one in sums.items()}
    busy = {pid: without(one, "exchange_s", "runq_s") for pid, one in sums.items()}
    least: list[float] = [min(each) for each in zip(*waits.values(), strict=True)]
    most: list[float] = [max(each) for each in zip(*busy.values(), strict=True)]
    last = Counter(min(waits, key=lambda pid: waits[pid][place]) for place in range(len(keep)))

    def behind(pid: int) -> float:
        """Seconds that a rank slept beyond the least, at most what another had more to do in the stretch."""
        columns = zip(waits[pid], busy[pid], least, most, strict=True)
        return sum(min(mine - fewest, longest - own) for mine, own, fewest, longest in columns)

    slept, worked = ({pid: sum(one) / steps for pid, one in parts.items()} for parts in (waits, busy))
    return Balance(
        exchange=sum(least) / steps,
        slept=slept,
        behind={pid: behind(pid) / steps for pid in slept},
        busy=worked,
        uneven=sum(most) / steps / max(fmean(worked.values()), 1e-12),
        slowest=last.most_common(1)[0][1] / len(keep),
        queued=fmean(sum(one.runq_s) / max(1, sum(one.steps)) for one in ranks),
        missing=max(0, world_size(profile) - len(ranks)),
    )


def all_ranks(profile: Profile) -> list[RankSteps]:
    """Those that exchange something in this run; of a merged profile all, its own and those of other runs."""
    if profile.elsewhere:
        return [*watched_ranks(profile), *profile.elsewhere]
    return [rank_steps(profile, one) for one in exchanging(profile)]


def watched_ranks(profile: Profile) -> list[RankSteps]:
    """The longest loop of each rank in one run, with its machine's load during that loop; of all processes
    where no rank is known."""
    loops = [with_host(profile, one) for one in longest_loops(profile).values()]
    known = {one.rank: one for one in loops if one.rank is not None}  # the longest: they come by length
    return list(known.values()) or loops


def rank_steps(profile: Profile, one: Loop) -> RankSteps:
    """The columns of a loop by which ranks are compared."""
    waiting = "wait_s" if one.loader else "gap_s"
    return RankSteps(
        one.pid,
        next((process.rank for process in profile.processes if process.pid == one.pid), None),
        profile.machine.host,
        ran=_steps(one),
        steps=list(one.table.steps),
        wall_s=_column(one, "wall_s"),
        wait_s=_column(one, waiting),
        runq_s=_column(one, "runq_s"),
        exchange_s=_column(one, "exchange_s"),
        aside=[bool(why) for why in one.table.set_aside],
    )


def with_host(profile: Profile, one: Loop) -> RankSteps:
    """The same with its profiled steps, and with its machine's load after its first steps."""
    table = one.table
    ends = zip(table.t, accumulate(table.steps), strict=True)
    begin = next((t for t, steps in ends if steps >= SET_OUT), table.t[0])
    host = measure_host(profile, begin, table.t[-1])
    return replace(
        rank_steps(profile, one),
        window=windows(profile).get(one.pid),
        job_cores=host.job_cores,
        foreign_cores=host.foreign_cores,
        throttled=host.throttled,
    )


def on_devices(profile: Profile) -> Balance | None:
    """Who waits for whom in the profiled steps, which are the same ones on all ranks."""
    found = windows(profile)
    longest = max((one.wall_s for one in found.values()), default=0.0)
    if len(found) < 2 or min(one.wall_s for one in found.values()) < NEARLY_ALL * longest:
        return None
    slept = {pid: one.collective_s for pid, one in found.items()}
    busy = {pid: one.wall_s - one.collective_s for pid, one in found.items()}
    least, most = min(slept.values()), max(busy.values())
    return Balance(
        exchange=least,
        slept=slept,
        behind={pid: min(slept[pid] - least, most - busy[pid]) for pid in found},
        busy=busy,
        uneven=most / max(fmean(busy.values()), 1e-12),
        slowest=None,
        queued=0.0,
        missing=max(0, world_size(profile) - len(found)),
    )


def windows(profile: Profile) -> dict[int, DeviceWindow]:
    """The profiled steps of each rank's device, by pid; empty where nothing is exchanged in them."""
    devices = [(one.pid, one.window) for one in (profile.device, *profile.other_devices) if one is not None]
    devices += [(one.pid, one.window) for one in profile.elsewhere]
    found = {pid: window for pid, window in devices if window is not None}
    return found if world_size(profile) > 1 and any(one.collective_s for one in found.values()) else {}


def world_size(profile: Profile) -> int:
    """How many ranks there are on all machines, by the largest number that a process reports."""
    return max([one.world_size or 1 for one in profile.processes], default=1)


def pick(profile: Profile, ranks: Sequence[Loop], data_s: Sequence[float]) -> Loop:
    """The rank that a report is about."""
    seen = windows(profile)
    steps = [replace(rank_steps(profile, one), window=seen.get(one.pid)) for one in ranks]
    return ranks[pick_place(steps, data_s)]


def pick_place(ranks: Sequence[RankSteps], data_s: Sequence[float]) -> int:
    """Which rank a report is about: the one that waits most, for data (``data_s``, seconds of each rank) or
    for the others, whichever tells the ranks further apart. Without any exchange, for data."""
    slept = [sum(one.exchange_s) for one in ranks]
    if not any(slept):
        profiled = [one.window.collective_s * sum(one.steps) for one in ranks if one.window is not None]
        slept = profiled if len(profiled) == len(ranks) else slept
    telling = data_s if max(data_s) - min(data_s) >= max(slept) - min(slept) else slept
    return telling.index(max(telling))


def exchange_shares(profile: Profile, pid: int | None) -> tuple[float, float]:
    """The parts of a rank's exchanges that are the exchange itself, and waiting for slower ranks; all of it
    the exchange where ranks cannot be compared. The rest is waiting for ranks that had no core."""
    balance = compare(profile) if pid is not None else None
    return balance.shares(pid) if balance is not None and pid is not None else (1.0, 0.0)


def _column(one: Loop, name: str) -> list[float]:
    column = getattr(one.table, name)
    return [value or 0.0 for value in column] + [0.0] * (len(one.table.t) - len(column))


def _steps(one: Loop) -> int:
    """All steps, including those without a row."""
    return max(one.steps, sum(one.table.steps))


def shared_edges(ranks: Sequence[RankSteps], most: int = COMPARED_AT_MOST) -> list[int]:
    """Step numbers at which a row of every rank ends; thinned to at most ``most`` stretches."""
    shared = set.intersection(*(set(accumulate(one.steps)) for one in ranks))
    edges = sorted(edge for edge in shared if edge > SET_OUT)
    return edges[:: -(-len(edges) // most) or 1]


def stretched(one: RankSteps, column: list[float], edges: list[int]) -> list[float]:
    """Sums of a column over the stretches between the edges."""
    totals = dict(zip(accumulate(one.steps), accumulate(column), strict=True))
    return [totals[end] - totals[begin] for begin, end in pairwise(edges)]


def sleep_in_exchanges(ranks: Sequence[RankSteps]) -> bool:
    """Whether there are several ranks, and some loop sleeps in exchanges; on accelerators a kernel waits."""
    return len(ranks) > 1 and any(any(one.exchange_s) for one in ranks)


def aligned(ranks: Sequence[RankSteps], most: int = COMPARED_AT_MOST) -> tuple[list[int], list[int]]:
    """The shared edges, and the stretches between them in which no rank's steps were set aside."""
    edges = shared_edges(ranks, most) if len(ranks) > 1 else []
    ends = ((accumulate(one.steps), one.aside) for one in ranks)
    marks = sorted(
        {end for all_of, aside in ends for end, is_aside in zip(all_of, aside, strict=True) if is_aside}
    )
    counts = [bisect_right(marks, edge) for edge in edges]
    return edges, [place for place, (before, after) in enumerate(pairwise(counts)) if before == after]


def slow_ranks(ranks: Sequence[RankSteps]) -> list[SlowRank] | None:
    """The slowest first. None where steps cannot be aligned, or no loop slept in an exchange (an accelerator
    waits instead of the loop)."""
    edges, keep = aligned(ranks)
    if len(keep) < COMPARED_AT_LEAST or not sleep_in_exchanges(ranks):
        return None
    steps = sum(edges[place + 1] - edges[place] for place in keep)
    sums = [sums_of(one, edges, keep) for one in ranks]
    owns = [without(one, "exchange_s") for one in sums]
    middle = [median_low(each) for each in zip(*owns, strict=True)]
    typical = {name: median_low(sum(one[name]) for one in sums) for name in ("wait_s", "runq_s")}
    usual, found = sum(middle), []
    whole = sum(median_low(each) for each in zip(*(one["wall_s"] for one in sums), strict=True))
    least = max(NOTICED * usual, LITTLE * whole)  # less than that of the step is the network
    for rank, columns, own in zip(ranks, sums, owns, strict=True):
        beyond = sum(own) - usual
        later = sum(mine > other for mine, other in zip(own, middle, strict=True)) / len(keep)
        if beyond < least or later < NEARLY_ALL:
            continue
        data, queue = (sum(columns[name]) - typical[name] for name in ("wait_s", "runq_s"))
        parts = {"data": data, "cores": queue, "work": beyond - data - queue}
        cause = max(parts, key=lambda name: parts[name])
        part = min(parts[cause], beyond)
        if cause == "cores" and (rank.throttled or 0.0) >= LITTLE:
            cause = "quota"
        found.append(SlowRank(rank, beyond / steps, cause, part / steps))
    return sorted(found, key=lambda one: -one.beyond_s)


def sums_of(one: RankSteps, edges: list[int], keep: list[int]) -> dict[str, list[float]]:
    """Sums over the kept stretches, by column."""
    columns = {name: stretched(one, getattr(one, name), edges) for name in COLUMNS}
    return {name: [sums[place] for place in keep] for name, sums in columns.items()}


def without(sums: dict[str, list[float]], *names: str) -> list[float]:
    """A rank's time in each stretch, without these parts of it."""
    taken = [sum(each) for each in zip(*(sums[name] for name in names), strict=True)]
    return [max(0.0, wall - parts) for wall, parts in zip(sums["wall_s"], taken, strict=True)]


COLUMNS_AT_MOST = 96
DRAWN_AT_MOST = 32  # of more ranks, those furthest from the median one are drawn


def rank_map(profile: Profile) -> RankMap | None:
    """Each rank's time outside of exchanges against the median one's, over time: all ranks end a step at the
    exchange, so the clock of one tells when all of them did.

    None for one rank, where steps cannot be aligned, or where no loop slept in an exchange: on an
    accelerator a kernel waits instead of the loop, and all ranks look alike.
    """
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
    far = sorted(range(len(ranks)), key=lambda place: -distances[place])[:DRAWN_AT_MOST]
    shown = sorted(far, key=lambda place: ranks[place].rank or 0)
    several = len({one.host for one in ranks}) > 1
    names = [_name(ranks[place], several) for place in shown]
    # A rank of this machine tells when those steps ended.
    here = longest_loops(profile).values() if profile.elsewhere else exchanging(profile)  # as all_ranks
    pids = {rank.pid for rank in ranks}
    table = next(loop.table for loop in here if loop.pid in pids)
    ends = dict(zip(accumulate(table.steps), table.t, strict=True))
    ends_s, drawn = [ends[edge] for edge in edges], [ratios[place] for place in shown]
    return RankMap(names, edges, ends_s, drawn, len(ranks) - len(shown))


def _name(one: RankSteps, several_hosts: bool) -> str:
    rank = f"rank {one.rank}" if one.rank is not None else f"process {one.pid}"
    return f"{rank}, {one.host}" if several_hosts and one.host else rank


ELSEWHERE = 2**22  # process numbers from here on are none of this machine's [proc_sys_kernel(5): pid_max]
MERGED = "ranks"  # of a gap: what a merged profile lacks
NAMED_AT_MOST = 8
ROWS_AT_MOST = 256  # of each rank: a thousand ranks stay a profile of some ten MB


def merge(files: Sequence[str], read: Callable[[str], Profile]) -> Profile:
    """One profile of all ranks in ``files``. Each is read by itself and dropped again: of a thousand only
    their steps are kept. Raises ``UsageError`` where they are not of one training."""
    by_file: dict[str, list[RankSteps]] = {}
    for file in files:
        profile = read(file)
        if profile.elsewhere:
            raise UsageError(f"{file}: it is merged already; name the profiles that it was made of")
        by_file[file] = [replace(one, file=file) for one in watched_ranks(profile)]
    ranks = _of_one_training([one for found in by_file.values() for one in found])
    together = {one.rank for one in ranks}
    short = [one for found in by_file.values() for one in found if one.rank not in together]
    # The report is about a rank that is late for what its own machine shows, its input or its cores; else
    # about the one that waits most.
    slowest = next(iter(slow_ranks(ranks) or ()), None)
    own = slowest is not None and slowest.cause != "work"
    waits_most = ranks[pick_place(ranks, [sum(one.wait_s) for one in ranks])]
    file = slowest.rank.file if slowest is not None and own else waits_most.file
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
