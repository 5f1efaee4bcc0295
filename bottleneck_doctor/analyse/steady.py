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
from .ranks import exchanging, pick
from .steps import seconds_in, steps_in

BLOCK_ROWS = 5  # in a block at least
BLOCKS_AT_MOST = 64
SLOWEST = 0.1  # of a block's rows, one at least, are left out as stalls (chosen)
SIDE_BLOCKS = 2  # a level needs at least so many blocks
APART = 1.3  # times the smaller step, from which two levels are two (chosen)
NEAR = 1 / 16  # of the steps: blocks that are no further apart do not show a line's direction (chosen)
WAITING = 0.3  # of a step more, or less, spent waiting is another level, too (chosen)
NOISE = (4.0, 3.3)  # median, mean deviations: levels differ by more; both are 2.7 standard deviations


@dataclass(frozen=True)
class Blocks:
    """Neighbouring rows together: rows in each, mean of each without its slowest rows, step at its middle."""

    rows: int
    levels: list[float]
    middles: list[float]


@dataclass(frozen=True)
class Trend:
    """A straight line through the levels of blocks: value at the first and at the last block."""

    first: float
    last: float
    misfit: float
    rising: float


def blocks_of(values: list[float], steps: list[int]) -> Blocks:
    """Blocks of rows, each of so many steps; a rest joins the last block."""
    size = max(BLOCK_ROWS, -(-len(values) // BLOCKS_AT_MOST))
    starts = range(0, max(1, len(values) - size + 1), size)
    edges = list(pairwise([*starts, len(values)]))
    until = [0, *accumulate(steps)]
    middles = [(until[begin] + until[end]) / 2 for begin, end in edges]
    return Blocks(size, [_level(values[begin:end]) for begin, end in edges], middles)


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
    slower = _is_jump(paces, cut, log(APART)) and not _is_line(walls, cut)
    waiting = _is_jump(shares.levels, cut, WAITING) and not _is_line(shares, cut)
    return _exactly(steps, cut * walls.rows, walls.rows) if slower or waiting else None


def fit_line(blocks: Blocks) -> Trend:
    """The median of all slopes, and the share of pairs of blocks in which the later one is higher."""
    levels, middles = blocks.levels, blocks.middles
    least = NEAR * (middles[-1] - middles[0])
    pairs = list(combinations(range(len(levels)), 2))
    if not pairs:
        return Trend(levels[0], levels[0], 0.0, 0.0)
    slope = median((levels[b] - levels[a]) / (middles[b] - middles[a]) for a, b in pairs)
    start = median(level - slope * middle for level, middle in zip(levels, middles, strict=True))
    misfit = sum(abs(level - start - slope * middle) for level, middle in zip(levels, middles, strict=True))
    apart = [(a, b) for a, b in pairs if middles[b] - middles[a] >= least]
    rising = sum(levels[b] > levels[a] for a, b in apart) / len(apart)
    return Trend(start + slope * middles[0], start + slope * middles[-1], misfit, rising)


def is_straight(blocks: Blocks) -> bool:
    """Whether one line explains the levels better than any two levels would."""
    places = range(SIDE_BLOCKS, len(blocks.levels) - SIDE_BLOCKS + 1)
    return fit_line(blocks).misfit <= min((_broken(blocks.levels, place) for place in places), default=0.0)


def _level(values: list[float]) -> float:
    kept = sorted(values)[: max(1, len(values) - max(1, int(SLOWEST * len(values))))]
    return fmean(kept)


def _broken(levels: list[float], cut: int) -> float:
    """What two levels leave unexplained."""
    sides = [(side, median(side)) for side in (levels[:cut], levels[cut:])]
    return sum(sum(abs(level - centre) for level in side) for side, centre in sides)


def _is_jump(levels: list[float], cut: int, least: float) -> bool:
    before, after = median(levels[:cut]), median(levels[cut:])
    left = [abs(level - before) for level in levels[:cut]] + [abs(level - after) for level in levels[cut:]]
    noise = max(NOISE[0] * median(left), NOISE[1] * fmean(left))
    return abs(after - before) > max(least, noise)


def _is_line(blocks: Blocks, cut: int) -> bool:
    return fit_line(blocks).misfit <= _broken(blocks.levels, cut)


def _exactly(steps: list[Step], near: int, reach: int) -> int:
    """The row within a block of the cut that parts the two levels best."""
    begin, end = max(0, near - 2 * reach), min(len(steps), near + 2 * reach)
    paces = [log(max(step.wall, 1e-9)) for step in steps[begin:end]]
    shares = [step.wait / max(step.wall, 1e-9) for step in steps[begin:end]]
    places = range(1, len(paces))
    return begin + min(places, key=lambda place: _broken(paces, place) + _broken(shares, place))


WARMUP_STEPS = 10  # lazy imports, allocator and thread pools settle within these (chosen)
UNSETTLED = 1.5  # times the loop's own later time, from which a step is warm-up (chosen)
WARMUP_SHARE = 0.34  # of a short run at most, so that some steady steps are left
EARLY = 0.34  # of a run at most is its beginning, unless the first epoch is longer (chosen)
NEAR_ROWS = 3  # a change of level so near to the first epoch's end is that end
SLOWER = 1.03  # times a step before the window, from which one after it is slower (chosen)
COUNTING = ("", "stacks")  # older profiles name the steps that py-spy sampled
SEGMENT_STEPS = 10  # shortest phase worth a verdict
STRETCH_SHARE = 0.1  # of a run at least, for a later phase (chosen)
STRETCHES_AT_MOST = 3  # with more, the run alternates between levels (chosen)


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
        ranks = [loop for loop in training if loop is best or loop.steps >= 0.9 * best.steps]
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
    rows, seen = [], 0
    for step, flag in zip(steps, flags, strict=True):
        seen += step.steps
        if seen > warmup:
            rows.append((step, flag))
    kept: list[Step] = []
    aside: dict[str, int] = {}
    for step, flag in rows:
        if flag in COUNTING:
            kept.append(step)
        else:
            aside[flag] = aside.get(flag, 0) + step.steps
    if aside and steps_in(kept) < SEGMENT_STEPS:  # a short run: use what there is
        kept, aside = [step for step, flag in zip(steps, flags, strict=True) if flag != "evaluation"][1:], {}
    epoch = sum(step.t < first_epoch_s for step in kept)
    begins = [0, *cuts_of(kept, epoch)]
    stretches = [kept[begin:end] for begin, end in pairwise([*begins, len(kept)])] if kept else []
    return SteadyWindow(stretches, warmup, aside, len(begins) > 1 and is_early(kept, begins[1], epoch))


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
    if slower < SLOWER or not _is_jump(paces, len(sides[0]), log(SLOWER)):
        return window, []
    aside = {**window.set_aside, "slowed": steps_in(steps) - steps_in(before)}
    why = f"without their waits for data they took ×{slower:.2f} of those before it, which alone are judged"
    gap = Gap("steps after the profiler's window", why, "see whether they do with --no-profiler")
    return replace(window, stretches=[before], set_aside=aside, beginning=False), [gap]


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


def cuts_of(steps: list[Step], epoch: int) -> list[int]:
    """Where the level changes for good; ``epoch`` is the row at which the first epoch ends.

    Where levels alternate, only a beginning apart from all the rest is cut off.
    """
    least, length = max(SEGMENT_STEPS, int(STRETCH_SHARE * len(steps))), len(steps)
    kept: list[int] = []
    for cut in _cuts(steps, 0):
        early = not kept and is_early(steps, cut, epoch)
        if early or (cut - (kept[-1] if kept else 0) >= least and length - cut >= least):
            kept.append(cut)
    if len(kept) < STRETCHES_AT_MOST:
        return kept
    return kept[:1] if is_early(steps, kept[0], epoch) and _is_unlike(steps, kept) else []


def _is_unlike(steps: list[Step], cuts: list[int]) -> bool:
    """Whether the first stretch is slower, or faster, than every other."""
    first, *others = (
        median(step.wall for step in steps[begin:end]) for begin, end in pairwise([0, *cuts, len(steps)])
    )
    return first > APART * max(others) or APART * first < min(others)


def _cuts(steps: list[Step], offset: int) -> list[int]:
    cut = find_cut(steps) if len(steps) >= 3 * SEGMENT_STEPS else None
    if cut is None:
        return []
    return [*_cuts(steps[:cut], offset), offset + cut, *_cuts(steps[cut:], offset + cut)]


def is_early(steps: list[Step], cut: int, epoch: int) -> bool:
    """Whether a cut ends the run's beginning: early, or where the first epoch ends."""
    counts = [step.steps for step in steps]
    return sum(counts[:cut]) <= EARLY * sum(counts) or abs(cut - epoch) <= NEAR_ROWS


def steps_of(table: StepTable) -> list[Step]:
    """The rows of a table per step; the named parts sum to the wall time."""
    return [_step(table, place) for place in range(len(table.t))]


def _step(table: StepTable, place: int) -> Step:
    steps = max(1, table.steps[place])

    def per(column: list[float] | list[float | None]) -> float:
        return (column[place] or 0.0) / steps

    def known(column: Sequence[float | None]) -> float | None:
        value = column[place]
        return None if value is None else value / steps

    wall, wait = per(table.wall_s), per(table.wait_s)
    parts = {
        "checkpoint": per(table.checkpoint_s), "logging": per(table.logging_s),
        "collect": per(table.collect_s), "copy": per(table.copy_s), "backward": per(table.backward_s),
        "optimizer": per(table.optimizer_s), "exchange": per(table.exchange_s) if table.exchange_s else 0.0,
    }  # fmt: skip
    room = max(0.0, wall - wait)
    scale = min(1.0, room / sum(parts.values())) if sum(parts.values()) > 0 else 1.0
    parts = {name: value * scale for name, value in parts.items()}
    return Step(
        t=table.t[place],
        steps=steps,
        wall=wall,
        wait=wait,
        compute=room - sum(parts.values()),
        cpu=known(table.cpu_s),
        queue=known(table.runq_s),
        process_cpu=known(table.process_cpu_s),
        wait_cpu=known(table.wait_cpu_s),
        ready=table.ready[place],
        wait_queue=per(table.wait_runq_s),
        system=known(table.system_s) if table.system_s else None,
        faults=known(table.minor_faults) if table.minor_faults else None,
        **parts,
    )


LAST_SHARE = 0.25  # of the time at least, or the last phase is no sign of what is to come (chosen)

Judge = Callable[[list[Step]], Diagnosis]


def tell_apart(window: SteadyWindow, judge: Judge) -> tuple[Diagnosis, list[Phase]]:
    """The diagnosis of the phase that stands for the rest of the training, and all phases.

    Neighbours with the same bottleneck are one phase at two paces; a beginning stays apart in any case.
    """
    if not window.stretches:
        return judge([]), []
    judged = [judge(steps) for steps in window.stretches]
    place = 1 if window.beginning else 0
    while place + 1 < len(judged):
        if _same(judged[place], judged[place + 1]):
            judged[place : place + 2] = [judge(judged[place].steps + judged[place + 1].steps)]
        else:
            place += 1
    main = _main(judged, window.beginning)
    phases = _phases(judged, main, window)
    return _saying_so(judged[main], phases[main], len(phases), window.beginning), phases


def _same(one: Diagnosis, other: Diagnosis) -> bool:
    bounds = one.verdict.bound, other.verdict.bound
    same = bounds[0] == bounds[1] and one.verdict.cause == other.verdict.cause
    return same or "inconclusive" in bounds


def _main(judged: list[Diagnosis], beginning: bool) -> int:
    """The last phase, which the training goes on with; where it is short, the longest."""
    later = list(range(1 if beginning else 0, len(judged)))
    walls = {place: seconds_in(judged[place].steps) for place in later}
    if walls[later[-1]] >= LAST_SHARE * sum(walls.values()):
        return later[-1]
    return max(later, key=lambda place: walls[place])


def _phases(judged: list[Diagnosis], main: int, window: SteadyWindow) -> list[Phase]:
    counts = [steps_in(one.steps) for one in judged]
    ends = [window.warmup_steps + end for end in accumulate(counts)]
    return [
        Phase(end - count, end, _label(judged, place, main, window.beginning), one.verdict)
        for place, (one, count, end) in enumerate(zip(judged, counts, ends, strict=True))
    ]


def _label(judged: list[Diagnosis], place: int, main: int, beginning: bool) -> str:
    if place == main:
        return "steady"
    if place or not beginning:
        return "earlier" if place < main else "later"
    walls = [median(step.wall for step in judged[one].steps) for one in (0, 1)]
    return "first stretch (cold)" if walls[0] > walls[1] else "first stretch (faster)"


def _saying_so(main: Diagnosis, phase: Phase, phases: int, beginning: bool) -> Diagnosis:
    """Adds to the verdict that the bottleneck changes in mid-run."""
    if phases <= (2 if beginning else 1):
        return main
    said = (
        f"{main.verdict.summary}; this holds for steps {phase.from_step} to {phase.to_step}, not all others"
    )
    return replace(main, verdict=replace(main.verdict, summary=said))
