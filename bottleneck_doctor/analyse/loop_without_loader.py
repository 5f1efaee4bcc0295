"""Judges which part of a step gets the batch, in a loop without a loader."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass, replace
from math import sqrt
from operator import add

from ..model.code import Location
from ..model.instruments import Stack
from ..model.loops import Loop, LoopBody, StepTable
from ..model.profile import Profile
from ..source import code
from ..source.files import is_queued, last_name, parse_frame, users_path
from ..source.purpose import forced_at
from .attribution import attribute
from .loop_parts import FEWEST, OWN, LoopSample, samples_in, training_samples
from .shares import FEW_SAMPLES, LITTLE, MOST, NEARLY_ALL, NOTICED
from .steps import SAMPLES_AT_LEAST, Z90

TRAINS = ("forward", "loss", "backward", "optimizer")  # between their lines the loop rarely waits for a batch
APART = (*TRAINS, "zero_grad", "checkpoint", "logging", "exchange")  # no part of the gap: hooks time these


@dataclass(frozen=True)
class InputGap:
    """When a loop gets its batch: in ``share`` of the gap before the model is called, and in ``outside`` of
    the rest of the step; the interval of both, as shares of the whole step; and the line that does it.
    ``busy`` is its share of the loop's time on a core, where no clock measured that."""

    share: float
    low: float
    high: float
    location: Location | None = None
    outside: float = 0.0
    busy: float | None = None


def judge_gap(profile: Profile, loop: Loop) -> InputGap:
    """By stack samples. Of too few all of the gap is taken, half of a slight one; the interval says so."""
    table = loop.table
    timed = [(gap, wall) for gap, wall in zip(table.gap_s, table.wall_s, strict=True) if gap is not None]
    gap, wall = sum(one for one, _ in timed), sum(one for _, one in timed)
    of_step = min(1.0, gap / wall) if wall > 0 else 0.0
    if any(one.role == "prefetch" and one.pid == loop.pid for one in profile.loops):
        # The loop blocks on a background thread: in a queue or, where none is seen, where it has no CPU.
        asleep = gap - _total(table.gap_cpu_s) - _total(table.gap_runq_s)
        queued = _total(table.queued_s) / max(sum(table.wall_s), 1e-12) * wall
        share = min(1.0, max(0.0, queued or asleep) / max(gap, 1e-12))
        return InputGap(share, share * of_step, of_step)
    seen = attribute(profile, loop)
    samples, data = seen.samples, seen.labelled("data")
    got = {one.line for one in data}
    trains = _usual([one for one in samples if one.part in TRAINS and one.line not in got])
    begin, end = (min(trains), max(trains)) if trains else (0, -1)
    inside = samples_in(one for one in data if not begin <= one.line <= end)
    own = [one for one in samples if one.label != "evaluation"]
    if not timed or _is_elsewhere(table, samples, of_step, inside) or _measured_before(own, data):
        share, spread = _share(samples_in(data), samples_in(samples))  # only samples show it
        ran, awake = (sum(one.stack.running or 0 for one in some) for some in (data, samples))
        busy = ran / awake if awake else None
        return InputGap(share, *_interval(share, spread), _hottest(data), share, busy)
    early = _before_model(profile, samples, got, (begin, end))
    later = samples_in(samples) - samples_in(early)
    outside, spread = _share(samples_in(data) - inside, later) if later else (0.0, 0.0)
    late = _late_share(table, samples, data, end)
    if late is not None:
        outside, spread = late, spread / 2
    least, most = (one * (1 - of_step) for one in _interval(outside, spread))
    share, low, high = 0.0, 0.0, 0.0
    if inside or late is None:
        share, low, high = _share_of_gap(loop, samples, trains, (inside, samples_in(early)), of_step)
    return InputGap(share, low + least, high + most, _hottest(data), outside)


def _share_of_gap(
    loop: Loop, samples: list[LoopSample], trains: set[int], counts: tuple[int, int], of_step: float
) -> tuple[float, float, float]:
    """The share of the gap in which the batch is got, and its interval as shares of the step; ``counts`` are
    the gap's samples that get it, and all."""
    inside, early = counts
    if early < (FEW_SAMPLES if loop.body is not None else SAMPLES_AT_LEAST):
        share = 0.5 if of_step < NOTICED else 1.0
        if inside:
            share = (inside + 0.5) / (early + 1)
        elif loop.body is not None and samples_in(samples) >= SAMPLES_AT_LEAST:
            share = min(1.0, 0.5 / (samples_in(samples) + 1) / max(of_step, 1e-12))  # a line never seen
        return share, 0.0, of_step
    # A function that trains may do more before the model or after the backward pass: an update by hand, say.
    # Its part in the gap is the gap's time by the clock beyond the samples of other lines.
    within = [one for one in samples if one.part in OWN and one.line in trains]
    hidden = samples_in(one for one in within if len(one.stack.frames) > one.depth + 1)
    more = min(hidden, max(0, round(of_step * samples_in(samples)) - early))
    share, spread = _share(inside, early + more)
    low, high = (one * of_step for one in _interval(share, spread))
    return share, low, high


def _before_model(
    profile: Profile, samples: list[LoopSample], got: set[int], trains: tuple[int, int]
) -> list[LoopSample]:
    """The samples in the gap: outside of the lines that train, and of what hooks time."""
    operations = [one for one in profile.operations if one.kind in APART]
    hooked = {(one.location.file, one.location.line) for one in operations if one.location is not None}
    zeroing = {one.line for one in samples if one.part == "zero_grad"}  # our hook's own frames are not kept
    return [
        one for one in samples
        if one.part not in APART and not trains[0] <= one.line <= trains[1]
        and not (one.part == "line" and one.line in zeroing)
        and (one.line in got or _innermost(one) not in hooked)
    ]  # fmt: skip


def _innermost(one: LoopSample) -> tuple[str, int] | None:
    """The line of the user's that a sample stands in: hooks time what is called there."""
    users = users_path(one.stack.frames[one.depth :])
    return (users[-1].file, users[-1].line) if users else None


def _is_elsewhere(table: StepTable, samples: list[LoopSample], of_step: float, inside: int) -> bool:
    """Whether the batch is got outside of the timed gap: a metric calls the model before, or the optimizer
    calls a closure that gets it, of whose many passes a sampled step times one gap."""
    seen, spread = _share(inside, samples_in(samples))
    closures = not any(table.optimizer_s) and any(one.part == "optimizer" for one in samples)
    return bool(closures and inside) or seen - 2 * spread > of_step + NOTICED


def _measured_before(samples: list[LoopSample], data: list[LoopSample]) -> bool:
    """Whether another call of the model, such as for an accuracy, closes the gap before a batch is got."""
    updates = _usual([one for one in samples if one.part in ("backward", "optimizer")])
    forwards = _usual([one for one in samples if one.part == "forward"])
    return (
        bool(updates)
        and max(updates) < max(forwards, default=0)
        and samples_in(data) > 0
        and all(one.line < max(updates) for one in data)
    )


def _late_share(
    table: StepTable, samples: list[LoopSample], data: list[LoopSample], last: int
) -> float | None:
    """The share of the step outside of the gap in which a batch is got between the model's return and the
    backward pass; None where no data line lies there, or it was not timed."""
    rows = zip(table.late_s, table.gap_s, table.wall_s, strict=True) if table.late_s else ()
    timed = [(late, wall - (gap or 0.0)) for late, gap, wall in rows if late is not None]
    late_s, rest_s = sum(late for late, _ in timed), sum(rest for _, rest in timed)
    lines, calls = Counter[int](), Counter[int]()
    for one in samples:
        lines[one.line] += one.stack.count
        calls[one.line] += one.stack.count if one.part == "forward" else 0
    known = (line for line, count in calls.items() if line < last and count > LITTLE * lines[line])
    model = max(known, default=0)  # a single sample at a line of many is torn
    before = (*OWN, "forward", "loss")  # the line that trains may call the model itself, after another one
    between = [one for one in samples if model < one.line < last or (one.line == last and one.part in before)]
    got = samples_in(one for one in data if model < one.line < last)
    if not model or not got or late_s <= 0 or rest_s <= 0:
        return None
    return got / samples_in(between) * min(1.0, late_s / rest_s)


def gap_stacks(profile: Profile, loop: Loop) -> list[Stack]:
    """The samples in which the loop got its batch, from the loop's own line on."""
    data = attribute(profile, loop).labelled("data")
    return [replace(one.stack, frames=one.stack.frames[one.depth :]) for one in data]


def body_of(profile: Profile, loop: Loop) -> LoopBody | None:
    """The innermost loop in which the training spends its time: where much of it passes outside of that, such
    as in collecting what the steps train on, the one around it."""
    chosen = body = loop.body
    seen = samples_in(training_samples(profile, loop.pid, chosen))
    while body is not None:
        count = samples_in(training_samples(profile, loop.pid, body))
        if seen < NEARLY_ALL * count:
            chosen, seen = body, count
        body = body.outer
    return chosen


def with_waits(profile: Profile, loop: Loop, gap: InputGap) -> Loop:
    """The loop with the columns of one that waited for a loader."""
    table = loop.table
    share, busy = _written(profile, loop)
    more = [share * one for one in table.logging_s]
    waits = [*map(min, table.wall_s, map(add, _waits(profile, loop, gap), more))]
    cpu, queue = ([one or 0.0 for one in column] for column in (table.cpu_s, table.runq_s))
    got_cpu = map(add, _got(table, cpu, table.gap_cpu_s, gap), [busy * one for one in more])
    wait_cpu, wait_queue = [*map(min, waits, got_cpu)], _got(table, queue, table.gap_runq_s, gap)
    table = replace(
        table,
        wait_s=waits,
        wait_cpu_s=[*wait_cpu],
        cpu_s=[max(0.0, whole - got) for whole, got in zip(cpu, wait_cpu, strict=True)],
        wait_runq_s=[*wait_queue],
        runq_s=[*map(max, wait_queue, queue)],
        logging_s=[(1 - share) * one for one in table.logging_s],
    )
    return replace(loop, table=table, wait_s=sum(waits))


def _written(profile: Profile, loop: Loop) -> tuple[float, float]:
    """The share of hooked logging that gets the batch, as a cache forced to the disk; its part on the CPU."""
    paths = [users_path(stack.frames[1:]) for stack in gap_stacks(profile, loop)]
    making = {(one.file, last_name(one.function)) for path in paths for one in path}
    whole = taken = cpu = 0.0
    for one in profile.operations:
        place = one.location
        if place is not None and (one.kind, one.pid, one.thread) == ("logging", loop.pid, loop.thread):
            whole += one.total_s
            if (place.file, last_name(place.function)) in making and forced_at(profile.sources, place):
                taken, cpu = taken + one.total_s, cpu + one.cpu_s
    return (taken / whole, cpu / taken) if taken > 0 else (0.0, 0.0)


def _got(table: StepTable, whole: list[float], inside: list[float | None], gap: InputGap) -> list[float]:
    """What getting the batch has of a column of whole steps, given what of it is ``inside`` of the gap."""
    if gap.busy is not None:
        return [gap.busy * one for one in whole]
    found = []
    for one, within, wall, gap_s in zip(whole, inside, table.wall_s, table.gap_s, strict=True):
        outside = gap.outside if wall > (gap_s or 0.0) else 0.0
        found.append(gap.share * (within or 0.0) + outside * max(0.0, one - (within or 0.0)))
    return found


def got_s(profile: Profile, loop: Loop) -> float:
    """Seconds of the whole loop in which it gets its batches."""
    loop = replace(loop, body=body_of(profile, loop))
    return sum(_waits(profile, loop, judge_gap(profile, loop)))


def _waits(profile: Profile, loop: Loop, gap: InputGap) -> list[float]:
    """Seconds of each row in which the loop gets its batch: by the gap or, where queues are nearly all of
    that, in queues alone. Sampling a step lengthens its gap; queues are timed in every step."""
    rows = [(timed or 0.0, wall) for timed, wall in zip(loop.table.gap_s, loop.table.wall_s, strict=True)]
    by_gap = [gap.share * timed + gap.outside * max(0.0, wall - timed) for timed, wall in rows]
    seen = attribute(profile, loop)
    waiting, data = (  # in queues; all of it for batches where no sample is in a queue
        samples_in(one for one in some if is_queued(one.stack.frames[one.depth :]))
        for some in (seen.samples, seen.labelled("data"))
    )
    share = data / waiting if waiting else 1.0
    queued = [share * (one or 0.0) for one in loop.table.queued_s]
    return queued if sum(queued) > NEARLY_ALL * sum(by_gap) else by_gap


def _usual(samples: list[LoopSample]) -> set[int]:
    """The loop's lines in which these parts of a step are, without those of torn stacks."""
    lines, parts = Counter[int](), Counter[str]()
    both = Counter[tuple[int, str]]()
    for one in samples:
        count = one.stack.count
        lines[one.line] += count
        parts[one.part] += count
        both[one.line, one.part] += count
    most = {line for (line, part), count in both.items() if count >= max(MOST * parts[part], FEWEST)}
    return most | {line for line, count in lines.items() if count > LITTLE * sum(lines.values())}


def _total(column: list[float | None]) -> float:
    return sum(value for value in column if value is not None)


def _share(part: int, whole: int) -> tuple[float, float]:
    """A share of samples and the half of its 90 % interval."""
    share = part / whole if whole > 0 else 0.0
    return share, Z90 * sqrt(share * (1 - share) / whole) if whole > 0 else 1.0


def _interval(share: float, spread: float) -> tuple[float, float]:
    return max(0.0, share - spread), min(1.0, share + spread)


def _hottest(data: list[LoopSample]) -> Location | None:
    """The line of the user's function that was seen most."""
    seen = Counter[Location]()
    for one in data:
        if one.called is not None:
            seen[one.called] += one.stack.count
    return max(seen, key=seen.__getitem__, default=None)


HANDS_OVER = re.compile(r"update|push|add|append|store|insert|put|extend|remember")  # in a method's name


def is_fed_back(profile: Profile, loop: Loop | None) -> bool:
    """Whether the loop around the line that gets a batch, as in ``log.sample(n)``, also hands something to
    the same object, as in ``log.update(index, error)``."""
    lines = {one.frames[0] for one in gap_stacks(profile, loop) if one.frames} if loop else set()
    for place in map(parse_frame, lines):
        source = code.source_at(profile.sources, place) if place is not None else None
        around = code.statements_around(code.tree_of(source), place.line) if source and place else []
        loops = [one for one in around if isinstance(one, ast.For | ast.While)]
        if not loops or loops[-1] is around[-1]:  # what a loop's head goes through is begun before its steps
            continue
        others = [one for one in ast.walk(loops[-1]) if isinstance(one, ast.Expr) and one is not around[-1]]
        stores = _receivers(around[-1])
        if any(stores & _receivers(one, HANDS_OVER) for one in others):
            return True
    return False


def _receivers(statement: ast.stmt, method: re.Pattern[str] | None = None) -> set[str]:
    """The objects, as they are written, whose methods a statement calls; of methods so named, where given.
    ``self`` is none of them: a trainer gets batches and does everything else, too."""
    functions = [one.func for one in code.calls_in(statement)]
    return {
        ast.unparse(one.value)
        for one in functions
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name | ast.Attribute)
        and (method is None or method.search(one.attr))
    } - {"self"}  # fmt: skip
