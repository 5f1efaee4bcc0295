"""Chooses the training loop and the steps that count: after warm-up, without evaluation and instruments."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

from ..model.diagnosis import Step
from ..model.profile import Loader, Loop, Outside, Profile, StepTable

WARMUP_STEPS = 10  # lazy imports, allocator and thread pools settle within these [catalogue 0.1]
WARMUP_SHARE = 0.34  # of a short run at most: better few steady steps than none
COLD_RATIO = 1.3  # a first stretch this much slower or faster than the rest is a phase of its own (ours)
EARLY = 0.34  # of a run at most is its beginning, unless the first epoch is longer (ours)
SEGMENT_STEPS = 10  # shortest phase worth a verdict


@dataclass(frozen=True)
class Window:
    """The steps of one loop, in order. ``steady`` are those that count."""

    steady: list[Step]
    before: list[Step]
    warmup_steps: int
    set_aside: dict[str, int] = field(default_factory=dict)
    cold: bool = False


def choose_loop(profile: Profile) -> tuple[Loop | None, Outside | None]:
    """The loop that the report is about: the training loop that took longest, of the rank that waited most.

    A loop fed by a background thread or by a function of the user's own is an ``Outside``.
    """
    training = [loop for loop in profile.loops if loop.role == "train" and loop.table.t]
    outside = max(profile.outside, key=lambda one: sum(one.wall_s), default=None)
    best = max(training, key=lambda loop: (loop.wall_s, loop.wait_s), default=None)
    if best is not None and (outside is None or best.wall_s > sum(outside.wall_s)):
        ranks = [loop for loop in training if loop.loader.split(":")[-1] and loop.steps >= 0.9 * best.steps]
        return max(ranks, key=lambda loop: loop.wait_s), None
    return None, outside


def loader_of(profile: Profile, loop: Loop | None, outside: Outside | None) -> Loader | None:
    """The loader behind the loop; for an outside loop the one that a background thread reads."""
    if loop is not None:
        return next((loader for loader in profile.loaders if loader.key == loop.loader), None)
    if outside is None:
        return None
    threads = [one for one in profile.loops if one.role == "prefetch" and one.pid == outside.pid]
    best = max(threads, key=lambda one: one.steps, default=None)
    return next((one for one in profile.loaders if best and one.key == best.loader), None)


def find_window(steps: list[Step], flags: list[str], slots: int, first_epoch_s: float = 0.0) -> Window:
    """Split warm-up, steps set aside, a cold first stretch, and the steady rest."""
    total = sum(step.steps for step in steps)
    warmup = min(max(WARMUP_STEPS, 2 * slots), int(WARMUP_SHARE * total))
    seen, kept = 0, []
    aside: dict[str, int] = {}
    for step, flag in zip(steps, flags, strict=True):
        seen += step.steps
        if seen <= warmup:
            continue
        if flag:
            aside[flag] = aside.get(flag, 0) + step.steps
        else:
            kept.append(step)
    if aside and sum(step.steps for step in kept) < SEGMENT_STEPS:  # a short run: use what there is
        kept, aside = [step for step, flag in zip(steps, flags, strict=True) if flag != "evaluation"][1:], {}
    cut = cold_stretch(kept, first_epoch_s)
    return Window(kept[cut:], kept[:cut], warmup, aside, cut > 0)


def cold_stretch(steps: list[Step], first_epoch_s: float = 0.0) -> int:
    """How many leading rows form a stretch of their own: the best split of two levels, early in the run or
    where the first epoch ends.

    Best = least sum of deviations from the two medians, so that a single stall splits nothing. The levels
    must differ by COLD_RATIO and by twice the noise, and both sides need SEGMENT_STEPS rows.
    """
    walls = [step.wall for step in steps]
    length = len(walls)
    if length < 3 * SEGMENT_STEPS:
        return 0
    epoch = sum(step.t < first_epoch_s for step in steps)
    early = range(SEGMENT_STEPS, int(EARLY * length) + 1, max(1, length // 80))
    places = [*early, *range(epoch - 3, epoch + 4)]
    places = [place for place in places if SEGMENT_STEPS <= place <= length - 2 * SEGMENT_STEPS]
    if not places:
        return 0
    cut = min(places, key=lambda place: _misfit(walls[:place]) + _misfit(walls[place:]))
    before, after = median(walls[:cut]), median(walls[cut:])
    apart = max(before, after) > COLD_RATIO * min(before, after)
    return cut if apart and abs(before - after) > 2 * _spread(walls[cut:]) else 0


def _misfit(values: list[float]) -> float:
    centre = median(values)
    return sum(abs(value - centre) for value in values)


def _spread(values: list[float]) -> float:
    """Median absolute deviation, the noise that a difference has to beat."""
    centre = median(values)
    return median(abs(value - centre) for value in values)


def steps_of(table: StepTable) -> list[Step]:
    """The rows of a table per step; the named parts sum to the wall time."""
    return [_step(table, place) for place in range(len(table.t))]


def _step(table: StepTable, place: int) -> Step:
    steps = max(1, table.steps[place])

    def per(column: list[float] | list[float | None]) -> float:
        return (column[place] or 0.0) / steps

    def known(column: list[float | None]) -> float | None:
        value = column[place]
        return None if value is None else value / steps

    wall, wait = per(table.wall_s), per(table.wait_s)
    parts = {
        "checkpoint": per(table.checkpoint_s), "logging": per(table.logging_s),
        "collect": per(table.collect_s), "copy": per(table.copy_s), "backward": per(table.backward_s),
        "optimizer": per(table.optimizer_s),
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
        **parts,
    )


def outside_steps(outside: Outside, waiting: float | None) -> list[Step]:
    """Steps of a loop without a loader. ``waiting`` is the share of the gap that gets a batch."""
    share = 1.0 if waiting is None else waiting
    return [_outside_step(outside, place, share) for place in range(len(outside.t))]


def _outside_step(outside: Outside, place: int, share: float) -> Step:
    steps = max(1, outside.steps[place])
    wall = outside.wall_s[place] / steps
    wait = min(outside.gap_s[place] * share / steps, wall)
    wait_cpu = min(outside.gap_cpu_s[place] * share / steps, wait)
    wait_queue = outside.gap_runq_s[place] * share / steps
    return Step(
        t=outside.t[place], steps=steps, wall=wall, wait=wait, backward=0.0, optimizer=0.0, checkpoint=0.0,
        logging=0.0, collect=0.0, copy=0.0, compute=wall - wait,
        cpu=max(0.0, outside.cpu_s[place] / steps - wait_cpu),
        queue=max(wait_queue, outside.runq_s[place] / steps),
        process_cpu=None, wait_cpu=wait_cpu, ready=None,
        wait_queue=wait_queue,
    )  # fmt: skip
