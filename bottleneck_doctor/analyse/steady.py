"""Chooses the training loop, the steps that count, and the phases at different levels among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, combinations, pairwise
from math import log
from statistics import fmean, median

from ..model.diagnosis import Diagnosis, Step
from ..model.loops import Loader, Loop, StepTable
from ..model.profile import Profile
from ..model.report import Phase
from ..model.run import Gap
from .loop_without_loader import body_of, got_s
from .predict import WORTH
from .ranks import SIMILAR, exchanging, pick
from .shares import NOTICED
from .steps import seconds_in, steps_in

WARMUP_STEPS = 10  # lazy imports, allocator and thread pools settle within these (chosen)
UNSETTLED = 1.5  # times the loop's own later time, from which a step is warm-up (chosen)
WARMUP_SHARE = 0.34  # of a run at most is its beginning, unless the first epoch is longer
NEAR_ROWS = 3  # a change of level so near to the first epoch's end is that end
LAST_SHARE = 0.25  # of the time at least, or the last phase is no sign of what is to come (chosen)
BLOCK_ROWS = 5  # in a block at least; its slowest tenth, one row at least, is left out as stalls
BLOCKS_AT_MOST = 64
SIDE_BLOCKS = 2  # a level needs at least so many blocks
APART = 1.3  # times the smaller step, from which levels are two; so is waiting that much more (chosen)
NOISE = (4.0, 3.3)  # median, mean deviations: levels differ by more; both are 2.7 standard deviations
SEGMENT_STEPS = 10  # shortest phase worth a verdict
CUTS_AT_MOST = 2  # with more, the run alternates between levels (chosen)


@dataclass(frozen=True)
class SteadyWindow:
    """The steps of one loop that count, in order, cut where their level changes. ``beginning`` says that the
    first stretch is the run's beginning, apart from all the rest."""

    stretches: list[list[Step]]
    warmup_steps: int
    set_aside: dict[str, int] = field(default_factory=dict)
    beginning: bool = False


def choose_loop(profile: Profile) -> Loop | None:
    """The loop that the report is about: the training loop that took longest, of the rank that waited most,
    for data or for the other ranks. One without a loader has the body in which it spends its time."""
    training = [loop for loop in profile.loops if loop.role == "train" and loop.table.t]
    alone = max(profile.outside, key=lambda one: one.wall_s, default=None)
    best = max(training, key=lambda loop: (loop.wall_s, loop.wait_s), default=None)
    if best is not None and (alone is None or best.wall_s > alone.wall_s):
        ranks = [loop for loop in training if loop is best or loop.steps >= SIMILAR * best.steps]
        return pick(profile, ranks, [loop.wait_s for loop in ranks])
    together = [one for one in exchanging(profile) if not one.loader]
    if len(together) > 1:
        alone = pick(profile, together, [got_s(profile, one) for one in together])
    return replace(alone, body=body_of(profile, alone)) if alone is not None else None


def loader_of(profile: Profile, loop: Loop | None) -> Loader | None:
    """The loader behind the loop; of a loop without one, the loader that a background thread reads."""
    if loop is None:
        return None
    threads = [one for one in profile.loops if one.role == "prefetch" and one.pid == loop.pid]
    best = loop if loop.loader else max(threads, key=lambda one: one.steps, default=None)
    return next((one for one in profile.loaders if best and one.key == best.loader), None)


def find_window(steps: list[Step], flags: list[str], slots: int, first_epoch_s: float = 0.0) -> SteadyWindow:
    """Split warm-up, steps set aside, and the stretches of the rest; the first may be a beginning apart."""
    warmup = _warmup_of(steps, slots)
    kept: list[Step] = []
    aside: dict[str, int] = {}
    seen = 0
    for step, flag in zip(steps, flags, strict=True):
        seen += step.steps
        if seen > warmup and not flag:
            kept.append(step)
        elif seen > warmup:
            aside[flag] = aside.get(flag, 0) + step.steps
    if aside and steps_in(kept) < SEGMENT_STEPS:  # a short run: use what there is
        kept, aside = [step for step, flag in zip(steps, flags, strict=True) if flag != "evaluation"][1:], {}
    epoch = sum(step.t < first_epoch_s for step in kept)

    def is_early(cut: int) -> bool:
        """Whether a cut ends the run's beginning: early, or where the first epoch ends."""
        return steps_in(kept[:cut]) <= WARMUP_SHARE * steps_in(kept) or abs(cut - epoch) <= NEAR_ROWS

    begins = [0, *cuts_of(kept, is_early)]
    stretches = [kept[begin:end] for begin, end in pairwise([*begins, len(kept)])] if kept else []
    return SteadyWindow(stretches, warmup, aside, len(begins) > 1 and is_early(begins[1]))


def split_at_window(window: SteadyWindow, table: StepTable) -> tuple[SteadyWindow, list[Gap]]:
    """The steps before a profiler's window on an accelerator alone, where those behind it are slower: what
    traced it may have stayed attached, which costs the loop 10 to 20 % from then on (pytorch #144455). Waits
    for data are no sign of that, and neighbours are compared, since later steps differ for many reasons."""
    traced = [t for t, flag in zip(table.t, table.set_aside, strict=True) if flag == "instrument"]
    steps = [step for stretch in window.stretches for step in stretch]
    before = [step for step in steps if traced and step.t < traced[0]]
    after = [step for step in steps if traced and step.t > traced[-1]][: len(before)]
    sides = [blocks_of([one.wall - one.wait for one in side], [one.steps for one in side]).levels
             for side in (before, after) if len(side) >= SIDE_BLOCKS * BLOCK_ROWS]  # fmt: skip
    if len(sides) < 2 or min(map(min, sides)) <= 0:
        return window, []
    slower = median(sides[1]) / median(sides[0])
    paces = [log(level) for side in sides for level in side]
    if slower < WORTH or not is_jump(paces, len(sides[0]), log(WORTH)):
        return window, []
    aside = {**window.set_aside, "slowed": steps_in(steps) - steps_in(before)}
    why = f"without their waits for data they took ×{slower:.2f} of those before it, which alone are judged"
    gap = Gap("steps after the profiler's window", why, "see whether they do with --no-profiler")
    return replace(window, stretches=[before], set_aside=aside, beginning=False), [gap]


@dataclass(frozen=True)
class Blocks:
    """Neighbouring rows together: rows in each, mean of each without its slowest rows, step at its middle."""

    rows: int
    levels: list[float]
    middles: list[float]


def blocks_of(values: list[float], steps: list[int]) -> Blocks:
    """Blocks of rows, each of so many steps; a rest joins the last block."""
    size = max(BLOCK_ROWS, -(-len(values) // BLOCKS_AT_MOST))
    starts = range(0, max(1, len(values) - size + 1), size)
    edges = list(pairwise([*starts, len(values)]))
    until = [0, *accumulate(steps)]
    middles = [(until[begin] + until[end]) / 2 for begin, end in edges]
    sides = [sorted(values[begin:end]) for begin, end in edges]
    levels = [fmean(side[: max(1, len(side) - max(1, len(side) // 10))]) for side in sides]
    return Blocks(size, levels, middles)


def cuts_of(steps: list[Step], is_early: Callable[[int], bool]) -> list[int]:
    """The rows at which the level changes for good; none where levels alternate. A stretch is not short,
    unless it is the run's beginning."""
    least, length = max(SEGMENT_STEPS, int(NOTICED * len(steps))), len(steps)
    kept: list[int] = []
    for cut in _all_cuts(steps, 0):
        early = not kept and is_early(cut)
        if early or (cut - (kept[-1] if kept else 0) >= least and length - cut >= least):
            kept.append(cut)
    return kept if len(kept) <= CUTS_AT_MOST else []


def _all_cuts(steps: list[Step], offset: int) -> list[int]:
    cut = find_cut(steps) if len(steps) >= 3 * SEGMENT_STEPS else None
    if cut is None:
        return []
    return [*_all_cuts(steps[:cut], offset), offset + cut, *_all_cuts(steps[cut:], offset + cut)]


def find_cut(steps: list[Step]) -> int | None:
    """The row at which the level changes, None where it does not."""
    counts = [step.steps for step in steps]
    walls = blocks_of([step.wall for step in steps], counts)
    waits = blocks_of([step.wait for step in steps], counts)
    places = range(SIDE_BLOCKS, len(walls.levels) - SIDE_BLOCKS + 1)
    if not places or min(walls.levels) <= 0:
        return None
    paces = [log(wall) for wall in walls.levels]
    shares = replace(walls, levels=[a / b for a, b in zip(waits.levels, walls.levels, strict=True)])
    cut = min(places, key=lambda place: _broken(paces, place) + _broken(shares.levels, place))
    slower = is_jump(paces, cut, log(APART)) and not _is_line(walls, cut)
    waiting = is_jump(shares.levels, cut, APART - 1) and not _is_line(shares, cut)
    return _exactly(steps, cut * walls.rows, walls.rows) if slower or waiting else None


def is_jump(levels: list[float], cut: int, least: float) -> bool:
    """Whether two sides differ by at least so much, and beyond the noise of both."""
    before, after = median(levels[:cut]), median(levels[cut:])
    left = [abs(level - before) for level in levels[:cut]] + [abs(level - after) for level in levels[cut:]]
    noise = max(NOISE[0] * median(left), NOISE[1] * fmean(left))
    return abs(after - before) > max(least, noise)


def _exactly(steps: list[Step], near: int, reach: int) -> int:
    """The row within a block of the cut that parts the two levels best."""
    begin, end = max(0, near - 2 * reach), min(len(steps), near + 2 * reach)
    paces = [log(max(step.wall, 1e-9)) for step in steps[begin:end]]
    shares = [step.wait / max(step.wall, 1e-9) for step in steps[begin:end]]
    return begin + min(range(1, len(paces)), key=lambda place: _broken(paces, place) + _broken(shares, place))


def _broken(levels: list[float], cut: int) -> float:
    """What two levels leave unexplained."""
    sides = [(side, median(side)) for side in (levels[:cut], levels[cut:])]
    return sum(sum(abs(level - centre) for level in side) for side, centre in sides)


def _is_line(blocks: Blocks, cut: int) -> bool:
    """Whether the line with the median of all slopes leaves no more unexplained than two levels do."""
    rows = list(zip(blocks.levels, blocks.middles, strict=True))
    slope = median((other[0] - one[0]) / (other[1] - one[1]) for one, other in combinations(rows, 2))
    start = median(level - slope * middle for level, middle in rows)
    return sum(abs(level - start - slope * middle) for level, middle in rows) <= _broken(blocks.levels, cut)


def _warmup_of(steps: list[Step], slots: int) -> int:
    """How many steps are warm-up: until workers have filled their queue and the loop's own work has settled.
    A long wait for a batch is no warm-up, so that a cold first epoch is kept."""
    at_most = min(max(WARMUP_STEPS, 2 * slots), int(WARMUP_SHARE * steps_in(steps)))
    usual = median(step.wall - step.wait for step in steps) if steps else 0.0
    warmup, seen = min(2 * slots, at_most), 0
    for step in steps:
        seen += step.steps
        if seen > at_most:
            break
        if step.wall - step.wait > UNSETTLED * usual:
            warmup = max(warmup, seen)
    return warmup


def steps_of(table: StepTable) -> list[Step]:
    """The rows of a table per step; the named parts sum to the wall time."""
    return [_step(table, place) for place in range(len(table.t))]


def _step(table: StepTable, place: int) -> Step:
    steps = max(1, table.steps[place])

    def known(column: Sequence[float | None]) -> float | None:
        value = column[place] if column else None
        return None if value is None else value / steps

    wall, wait = table.wall_s[place] / steps, table.wait_s[place] / steps
    names = ("checkpoint", "logging", "collect", "copy", "backward", "optimizer", "exchange")
    parts = {name: known(getattr(table, f"{name}_s")) or 0.0 for name in names}
    room, hooked = max(0.0, wall - wait), sum(parts.values())
    scale = min(1.0, room / hooked) if hooked > 0 else 1.0
    return Step(
        t=table.t[place],
        steps=steps,
        wall=wall,
        wait=wait,
        compute=room - scale * hooked,
        cpu=known(table.cpu_s),
        queue=known(table.runq_s),
        process_cpu=known(table.process_cpu_s),
        wait_cpu=known(table.wait_cpu_s),
        wait_queue=known(table.wait_runq_s) or 0.0,
        system=known(table.system_s),
        faults=known(table.minor_faults),
        **{name: scale * value for name, value in parts.items()},
    )


def tell_apart(
    window: SteadyWindow, judge: Callable[[list[Step]], Diagnosis]
) -> tuple[Diagnosis, list[Phase]]:
    """The diagnosis of the phase that stands for the rest of the training, and all phases.

    Neighbours with the same bottleneck, as far as both are known, are one phase at two paces; a beginning
    stays apart in any case.
    """
    if not window.stretches:
        return judge([]), []
    judged = [judge(steps) for steps in window.stretches]
    first = 1 if window.beginning else 0
    place = first
    while place + 1 < len(judged):
        pair = [(one.verdict.bound, one.verdict.cause) for one in judged[place : place + 2]]
        if pair[0] == pair[1] or "inconclusive" in (pair[0][0], pair[1][0]):
            judged[place : place + 2] = [judge(judged[place].steps + judged[place + 1].steps)]
        else:
            place += 1
    # The last phase, which the training goes on with; where it is short, the longest.
    walls = [seconds_in(one.steps) if n >= first else 0.0 for n, one in enumerate(judged)]
    main = len(judged) - 1 if walls[-1] >= LAST_SHARE * sum(walls) else walls.index(max(walls))
    phases, end = [], window.warmup_steps
    for n, one in enumerate(judged):
        begin, end = end, end + steps_in(one.steps)
        phases.append(Phase(begin, end, _label(judged, n, main, window.beginning), one.verdict))
    verdict, phase = judged[main].verdict, phases[main]
    if len(phases) > first + 1:
        holds = f"this holds for steps {phase.from_step} to {phase.to_step}, not all others"
        verdict = replace(verdict, summary=f"{verdict.summary}; {holds}")
    return replace(judged[main], verdict=verdict), phases


def _label(judged: list[Diagnosis], place: int, main: int, beginning: bool) -> str:
    if place == main:
        return "steady"
    if place or not beginning:
        return "earlier" if place < main else "later"
    walls = [median(step.wall for step in one.steps) for one in judged[:2]]
    return "first stretch (cold)" if walls[0] > walls[1] else "first stretch (faster)"
