"""Judges with how many threads the model computes: one where cores idle, or more than there are cores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from ..model.diagnosis import Change, HostLoad, Inputs, Scenario, Step
from ..model.loops import Loop
from ..model.profile import Profile
from .attribution import attribute
from .host import busy_workers, strangers
from .inputs import looks_at
from .loop_cpu import anatomy_of
from .loop_parts import LoopSample
from .predict import gain
from .replay import step_seconds
from .shares import LARGE_PART, MOST, NEARLY_ALL, NOTICED
from .steps import SAMPLES_AT_LEAST, seconds_in


def making_threads(inputs: Inputs, steps: list[Step]) -> float:
    """CPU of all threads over that of the thread that makes the batches, 1 where the others have little.

    Some of it may be OpenMP's threads, which keep a core for a while after their work."""
    if inputs.cpu > 0:
        threads = 1 + inputs.other_cpu / inputs.cpu
    else:
        own = seconds_in(steps, "cpu") + seconds_in(steps, "wait_cpu")
        threads = seconds_in(steps, "process_cpu") / own if own > 0 else 1.0
    return threads if threads >= 1 + LARGE_PART else 1.0


LARGE_S = 2e-4  # self CPU per call from which dividing an operator pays (chosen)
EFFICIENCY = (0.0, 0.5, 0.9)  # of each further core (chosen; with a busy neighbour below zero)
NEIGHBOUR_CORES = 0.25  # used by other processes, from which all threads wait for the slowest (chosen)
MODEL = ("forward", "loss", "backward", "optimizer")
# What each surplus thread per core adds to a large operator, whose threads wait for the last; and their cost
# where operators are so large that this is little: least, usual, most, measured on two cores with 3 to 32.
DELAY_S = (2e-4, 8e-4, 2e-3)
DELAYED_AT_MOST = (0.5, 0.8, 0.95)  # of the operators' time
CROWD = (1.0, 1.2, 1.4)
# How many times as long a model with a thread for each core takes next to a busy process as with threads that
# fit: 7 to 68, measured with five small models on two cores; 1 to 2.7 where that process sleeps at times.
SHARED = (2.0, 8.0, 50.0)


@dataclass(frozen=True)
class Threads:
    """Whether the model has too ``few`` or too ``many`` threads, or ``shared`` cores: more threads than other
    processes leave cores; ``""`` if none, or not known.

    ``wanted`` is the better number, ``factor`` the cautious, likely and hopeful speedup that it brings; where
    that is a guess, ``most`` is what it brings if threads share all of the work evenly.
    """

    trouble: str = ""
    count: int | None = None
    wanted: int = 0
    idle: float | None = None
    large: float | None = None
    factor: tuple[float, float, float] = (1.0, 1.0, 1.0)
    most: float | None = None


def judge_threads(
    profile: Profile, loop: Loop | None, scenario: Scenario | None, host: HostLoad, held: float
) -> Threads:
    """``held`` is the share of the step in which the loop was ready and had no core."""
    count, idle, large = torch_threads(profile, loop), idle_cores(host), large_share(profile, loop)
    known = Threads("", count, count or 0, idle, large)
    if count is None or scenario is None or host.accelerated:
        return known
    ranks = max(1, sum(one.role == "trainer" and bool(one.torch_threads) for one in profile.processes))
    if count * ranks > host.cores + 0.5 and count > 1:
        return _crowd(known, scenario, host, held, ranks, profile, loop)
    left = max(1, int(host.cores - strangers(host) + 0.5) // ranks)
    if left < count:  # while others run, all threads wait for the one that shares a core with them
        busy = min(strangers(host), 1.0)
        often = max(0.0, 2 * busy - 1)  # next to others that sleep half of the time nothing is lost
        kept = [
            1 - share * (1 - 1 / times) for share, times in zip((often, often, busy), SHARED, strict=True)
        ]
        low, likely = (gain(scenario, Change(compute=one)) for one in kept[:2])
        # The batches may be made with torch's operators, too.
        most = gain(scenario, Change(compute=kept[-1], cpu=1.0 if scenario.workers else kept[-1]))
        return Threads("shared", count, left, idle, large, (low, likely, most), most)
    lonely = count == 1 and idle is not None and idle >= NEARLY_ALL
    if not lonely or (large or 0.0) < MOST or (host.foreign_cores or 0.0) > NEIGHBOUR_CORES:
        return known
    wanted, share = 1 + round((idle or 0.0) / ranks), large or 0.0
    low, likely, high = (
        gain(scenario, Change(compute=1 - share + share / (1 + one * (wanted - 1)))) for one in EFFICIENCY
    )
    most = gain(scenario, Change(compute=1 - share + share / wanted))
    return Threads("few", count, wanted, idle, large, (low, likely, high), most)


def _crowd(
    known: Threads,
    scenario: Scenario,
    host: HostLoad,
    held: float,
    ranks: int,
    profile: Profile,
    loop: Loop | None,
) -> Threads:
    """Each parallel region waits for threads that wait for a core. Surplus threads cost the time in which the
    loop is held up or asleep, and their spinning, which no clock distinguishes from computing.

    Other processes and workers on the same cores would delay a single thread, too: their part is left out.
    """
    surplus = (known.count or 1) * ranks - host.cores
    others = strangers(host) + busy_workers(scenario)
    share = surplus / (surplus + others)
    # The loop's thread sleeps in the model: on a CPU, for its other threads.
    idle = scenario.shares.asleep * sum(cost.idle for cost in scenario.costs) / len(scenario.costs)
    slept = min(NEARLY_ALL, share * idle / step_seconds(scenario))
    ours = min(NEARLY_ALL - slept, held * share)
    alone = ranks == 1 and others <= NEIGHBOUR_CORES
    divided = alone and (known.large or 0.0) >= MOST
    if ours + slept < NOTICED and not divided:
        return known
    wanted = max(1, int(host.cores - busy_workers(scenario) + 0.5) // ranks)
    factor, most = (1.0, 1 / (1 - slept - ours / 2), 1 / (1 - slept - ours)), None
    own = 1 - loop.wait_s / loop.wall_s if loop is not None and loop.wall_s > 0 else 1.0
    if divided:
        large = [one for one in profile.operators if one.self_cpu_s >= LARGE_S * max(one.calls, 1)]
        delays = sum(one.calls for one in large) * surplus / max(host.cores, 1.0)
        whole = sum(one.self_cpu_s for one in profile.operators) or inf
        waits = zip(DELAY_S, DELAYED_AT_MOST, strict=True)
        gained = [1 / (1 - own * min(at_most, delays * delay / whole)) for delay, at_most in waits]
        low, likely, high = (max(ends) for ends in zip(factor, CROWD, gained, strict=True))
        factor = low, likely, high
    if divided or slept:  # no clock measures what threads spin
        most = max(factor[2], 1 / (1 - own * DELAYED_AT_MOST[-1]))
    return Threads("many", known.count, wanted, known.idle, known.large, factor, most)


def asleep_share(profile: Profile, loop: Loop | None) -> float:
    """The model's share of the samples in which the loop's thread slept, batches apart; 0 where the model has
    no other thread to sleep for."""
    alone = (torch_threads(profile, loop) or 1) == 1
    return 0.0 if alone else _share_asleep(profile, loop, lambda one: one.part in MODEL)


def resting_share(profile: Profile, loop: Loop | None) -> float:
    """The share of the same in what the loop's own lines call, such as a request to a server. Sleep in locks
    is left out: it may be for other threads of the model."""
    looks = looks_at(profile, "", loop.pid, -inf, inf) if loop is not None else Counter[str]()
    asleep = looks.total() - looks["running"]
    locked = looks["lock"] / asleep if asleep >= SAMPLES_AT_LEAST else 1.0
    rests = _share_asleep(profile, loop, lambda one: one.own and not one.logs)
    return (1 - locked) * rests


def _share_asleep(profile: Profile, loop: Loop | None, wanted: Callable[[LoopSample], bool]) -> float:
    slept = {True: 0, False: 0}
    for one in attribute(profile, loop).own:
        if one.stack.running is not None:
            slept[wanted(one)] += max(0, one.stack.count - one.stack.running)
    return slept[True] / sum(slept.values()) if sum(slept.values()) >= SAMPLES_AT_LEAST else 0.0


def torch_threads(profile: Profile, loop: Loop | None) -> int | None:
    """``torch.get_num_threads()`` of the loop's process, None where it was not recorded."""
    mine = [one.torch_threads for one in profile.processes if loop is not None and one.pid == loop.pid]
    return next((count for count in mine if count), None)


def idle_cores(host: HostLoad) -> float | None:
    """Idle cores of those that the job may use: less what it and other processes used."""
    if host.job_cores is None or host.foreign_cores is None:
        return None
    return max(0.0, host.cores - host.job_cores - host.foreign_cores)


def operator_s(profile: Profile) -> float:
    """Seconds of a profiled operator, weighed by the time that such operators take; 0 = not known."""
    total = sum(one.self_cpu_s for one in profile.operators)
    weighed = sum(one.self_cpu_s**2 / max(one.calls, 1.0) for one in profile.operators)
    return weighed / total if total > 0 else 0.0


def large_share(profile: Profile, loop: Loop | None) -> float | None:
    """Share of the profiled operators' time in calls long enough to be divided."""
    anatomy = anatomy_of(profile, loop)
    if anatomy is not None and anatomy.own_s > 0:
        return min(1.0, anatomy.large_s / anatomy.own_s)
    total = sum(one.self_cpu_s for one in profile.operators)
    large = [one.self_cpu_s for one in profile.operators if one.self_cpu_s >= LARGE_S * max(one.calls, 1)]
    return sum(large) / total if total > 0 else None
