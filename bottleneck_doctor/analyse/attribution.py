"""Labels the stack samples of a loop's thread, once: data, evaluation, logging, checkpoint, training.

Evaluation without a loader is forward passes within the training loop that nothing is trained on. What lies
between two epochs is found here too, with the time that it takes.
"""

from __future__ import annotations

import ast
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Any

from ..model.code import FunctionSource, Location
from ..model.instruments import Stack
from ..model.loops import Loop, LoopBody, StepTable
from ..model.profile import Profile
from ..source import code
from ..source.files import parse_frame, users_path
from ..source.purpose import LOG, MEASURE, UNNEEDED, purpose_at, purpose_of
from .loop_parts import LoopSample, data_samples, samples_in, training_samples
from .shares import MOST, PART, TRACE
from .steps import SAMPLES_AT_LEAST

BATCHES, TORCH = "/torch/utils/data/", "/torch/"
ITERATES = ("__iter__", "__next__")


@dataclass(frozen=True)
class EpochEnds:
    """The ``share`` of the steps' time that lies between epochs, beyond a usual step; the part of that on the
    CPU; and the part of the samples there in which torch does not compute, 0 where too few were taken."""

    share: float = 0.0
    cpu: float = 1.0
    python: float = 0.0


NO_ENDS = EpochEnds()


def epoch_ends(profile: Profile, loop: Loop | None) -> EpochEnds:
    """From the rows that cross an epoch's end; at most what hooks timed outside of all loops."""
    life = next((one for one in profile.elapsed if loop is not None and one.pid == loop.pid), None)
    if loop is None or life is None or not loop.loader or len(loop.epochs.t) < 2 or not loop.table.t:
        return NO_ENDS
    table = loop.table
    hooked = zip(table.wait_s, table.checkpoint_s, table.logging_s, table.collect_s, strict=True)
    owns = [wall - sum(others) for wall, others in zip(table.wall_s, hooked, strict=True)]
    edges = [False, *(later != one for one, later in pairwise(table.epoch))]
    spent_s = [cpu or 0.0 for cpu in table.cpu_s]
    rows = list(zip(table.steps, owns, spent_s, edges, strict=True))
    within = [(own / steps, cpu / steps) for steps, own, cpu, crosses in rows if steps and not crosses]
    if not within or not sum(table.wall_s):
        return NO_ENDS
    usual_s, usual_cpu = (median(column) for column in zip(*within, strict=True))
    beyond = [
        (own - usual_s * steps, cpu - usual_cpu * steps) for steps, own, cpu, crosses in rows if crosses
    ]
    taken, spent = (max(0.0, sum(column)) for column in zip(*beyond, strict=True)) if beyond else (0.0, 0.0)
    share = min(taken / sum(table.wall_s), life.between_s / max(life.training_s + life.between_s, 1e-12))
    if share < TRACE:
        return NO_ENDS
    stacks = stacks_between(profile, loop)
    count = sum(one.count for one in stacks)
    own = sum(one.count for one in stacks if not any(TORCH in frame for frame in one.frames))
    return EpochEnds(share, min(1.0, spent / taken), own / count if count >= SAMPLES_AT_LEAST else 0.0)


def stacks_between(profile: Profile, loop: Loop | None) -> list[Stack]:
    """The samples of the loop's thread between its epochs, where the loop around them was found."""
    if loop is None or not loop.loader or loop.body is None or loop.body.outer is None or loop.thread != 0:
        return []
    inner = loop.body
    return [
        one for one in profile.stacks
        if one.pid == loop.pid and one.role == "trainer" and "Main" in one.thread
        and _between(profile.sources, one, inner)
    ]  # fmt: skip


def _between(sources: list[FunctionSource], stack: Stack, inner: LoopBody) -> bool:
    """Whether the sample is in a loop around the innermost one but not in that; or in the innermost loop's
    head, in what is called once before the first turn."""
    path = [parse_frame(frame) for frame in stack.frames]
    body: LoopBody | None = inner
    while body is not None:
        lines = range(body.first, body.last + 1)
        depths = [n for n, one in enumerate(path) if one and one.file == body.file and one.line in lines]
        if depths:
            break
        body = body.outer
    if body is not inner:
        return body is not None
    place, calls = path[depths[-1]], [one for one in path[depths[-1] + 1 :] if one is not None]
    return place is not None and place.line == inner.first and _begins(calls, sources)


def _begins(calls: list[Location], sources: list[FunctionSource]) -> bool:
    """Whether the head of a loop makes what the loop goes over, and is not getting a batch of it."""
    if not calls or any(BATCHES in one.file for one in calls):
        return False
    source = code.source_at(sources, calls[0])
    return calls[0].function.rpartition(".")[2] == "__init__" or (
        source is not None and "yield" not in source.text and source.function not in ITERATES
    )


CHANCE = 4.0  # median deviations from the usual step: 2.7 standard deviations of normal noise
# What of a row passes between batches, and its part that does not.
WITHOUT_WAIT = (("cpu_s", ""), ("process_cpu_s", "wait_cpu_s"), ("runq_s", "wait_runq_s"), ("system_s", ""),
       ("minor_faults", ""))  # fmt: skip
Call = tuple[int, str]  # the loop's line, and the user's function that it calls


@dataclass(frozen=True)
class Evaluated:
    """The share of the training loop's time, by stack samples, and the line of it that evaluates most."""

    share: float = 0.0
    place: Location | None = None
    calls: frozenset[Call] = frozenset()

    def set_aside(self, loop: Loop) -> Loop:
        """The loop with steps that hold no evaluation: its time is taken off the rows that are longer than
        usual, as evaluations are rare, and what is left of it off all alike."""
        if not self.share or not loop.table.t:
            return loop
        rows = list(zip(loop.table.wall_s, loop.table.steps, strict=True))
        usual = median(wall / count for wall, count in rows)
        chance = CHANCE * median(abs(wall / count - usual) for wall, count in rows)
        longer = [wall - usual * count if wall / count > usual + chance else 0.0 for wall, count in rows]
        walls, whole = loop.table.wall_s, sum(loop.table.wall_s)
        taken = self.share * whole
        off = min(1.0, taken / sum(longer)) if sum(longer) > 0 else 0.0
        over = max(0.0, taken - sum(longer)) / max(whole - sum(longer), 1e-12)
        evaluated = [off * more + over * (wall - more) for wall, more in zip(walls, longer, strict=True)]
        return replace(loop, table=_less(loop.table, evaluated))


def _less(table: StepTable, seconds: list[float]) -> StepTable:
    """The steps without so many seconds of the loop's own time in each row."""
    columns: dict[str, list[Any]] = {name: list(column) for name, column in vars(table).items()}
    for place, taken in enumerate(seconds):
        own = table.wall_s[place] - table.wait_s[place]
        taken = min(taken, own)
        left = 1 - taken / own if own > 0 else 1.0
        columns["wall_s"][place] -= taken
        for name, within in WITHOUT_WAIT:
            value = columns[name][place]
            if value is not None:
                wait = (columns[within][place] or 0.0) if within else 0.0
                columns[name][place] = wait + left * max(0.0, value - wait)
    return replace(table, **columns)


def find_evaluated(profile: Profile, loop: Loop, samples: list[LoopSample]) -> Evaluated:
    """What the loop itself evaluates, by its samples; nothing where its source was not kept."""
    if loop.thread != 0 or not profile.sources:
        return Evaluated()
    groups: dict[Call, list[LoopSample]] = {}
    for one in samples:
        groups.setdefault(one.call, []).append(one)
    modular = any(one.part == "forward" for one in samples)
    found = {call: group for call, group in groups.items() if _evaluates(profile, group, modular)}
    if not found:
        return Evaluated()
    share = sum(map(samples_in, found.values())) / samples_in(samples)
    (line, _), group = max(found.items(), key=lambda one: samples_in(one[1]))
    body, place = loop.body, group[0].called
    if body is not None:
        place = Location(body.file, line, body.function)
    return Evaluated(share, place, frozenset(found))


def _evaluates(profile: Profile, group: list[LoopSample], modular: bool) -> bool:
    """Whether the samples of one call are an evaluation of the model, which is ``modular`` where modules were
    seen to be called."""
    total = samples_in(group)
    forwards = samples_in([one for one in group if one.part in ("forward", "loss")])
    if total < SAMPLES_AT_LEAST:
        return False
    stacks = [one.stack for one in group]
    purpose = purpose_of(profile.sources, stacks)
    # A model of plain functions calls no module: only the source shows that it is measured now and then.
    measures = not modular and purpose.seldom and purpose.what in (UNNEEDED, MEASURE)
    least = MOST if purpose.what == LOG else PART  # else the writing takes the time, or it uses the model
    if purpose.what not in (UNNEEDED, MEASURE, LOG) or not (measures or forwards >= least * total):
        return False
    path = users_path(max(stacks, key=lambda one: one.count).frames)
    return any(_says_so(profile.sources, place) for place in path)


def _says_so(sources: list[FunctionSource], place: Location) -> bool:
    """Whether gradients are off there, or the model is in eval mode: set by the called function, or around
    the training loop's own line."""
    source = code.source_at(sources, place)
    if source is None or not code.runs_backward(source):
        return source is not None and code.GRADIENTS_OFF.search(source.text) is not None
    around = code.statements_around(code.tree_of(source), place.line)
    heads = [ast.unparse(part) for one in around if isinstance(one, ast.With) for part in code.header(one)]
    return any(code.GRADIENTS_OFF.search(head) is not None for head in heads)


TIMED = ("backward", "optimizer", "exchange")  # by hooks, in each step
# Never logging: a forward pass whose result is logged is the model's; the others have hooks of their own.
ELSEWHERE = ("forward", "checkpoint", *TIMED)
OWN = ("training", "logging", "checkpoint")  # labels of what a loop does other than getting batches


@dataclass(frozen=True)
class Attribution:
    """The samples of a loop's thread, and what of the loop is an evaluation of the model.

    Labels: ``evaluation`` of the model within the loop; ``data``, getting a batch; ``between`` epochs; of the
    rest ``checkpoint``, ``logging`` (it is written out, and no hook times it) and ``training``. ``own`` holds
    these three, of the main thread; there all of a function that saves has the part "checkpoint".
    """

    profile: Profile
    loop: Loop | None
    samples: list[LoopSample] = field(default_factory=list)
    evaluated: Evaluated = field(default_factory=Evaluated)
    own: list[LoopSample] = field(default_factory=list)

    def labelled(self, label: str) -> list[LoopSample]:
        """Those with this label."""
        return [one for one in self.samples if one.label == label]


# A report asks dozens of times about one or two loops; profiles are compared by identity.
_RECENT: deque[Attribution] = deque(maxlen=4)


def attribute(profile: Profile, loop: Loop | None) -> Attribution:
    """The labelled samples of a loop; they do not depend on its table of steps."""
    if loop is None:
        return Attribution(profile, None)
    for one in _RECENT:
        if one.profile is profile and one.loop is not None and _is_same(one.loop, loop):
            return one
    samples = training_samples(profile, loop.pid, loop.body)
    evaluated = find_evaluated(profile, loop, samples)
    training = () if loop.loader else [one for one in samples if one.call not in evaluated.calls]
    data = {id(one) for one in data_samples(training, loop.body)}
    between = {id(one) for one in stacks_between(profile, loop)}

    def elsewhere(one: LoopSample) -> str:
        """The label of what is not the loop's own work."""
        if one.call in evaluated.calls:
            return "evaluation"
        if id(one.stack) in between or not one.stack.frames:
            return "between"
        return "data" if one.part == "data" or id(one) in data else ""

    samples = [replace(one, label=elsewhere(one)) for one in samples]
    saved = saving_calls([one for one in samples if not one.label])
    samples = [one if one.label else _worked(profile, one, saved) for one in samples]
    own = [
        replace(one, part="checkpoint") if one.label == "checkpoint" else one
        for one in samples if loop.thread == 0 and one.label in OWN
    ]  # fmt: skip
    found = Attribution(profile, loop, samples, evaluated, own)
    _RECENT.append(found)
    return found


def _is_same(one: Loop, other: Loop) -> bool:
    mine, its = ((loop.pid, loop.thread, loop.loader) for loop in (one, other))
    return mine == its and one.body is other.body


def _worked(profile: Profile, one: LoopSample, saved: set[tuple[int, str]]) -> LoopSample:
    """A sample of the loop's own work, labelled checkpoint, logging or training."""
    purpose = purpose_at(profile.sources, one.stack)
    if one.part == "checkpoint" or one.call in saved:
        return replace(one, label="checkpoint", purpose=purpose)
    logs = purpose.what == LOG and one.part not in ELSEWHERE
    return replace(one, label="logging" if logs else "training", purpose=purpose)


def saving_calls(samples: list[LoopSample]) -> set[tuple[int, str]]:
    """The calls that count as a checkpoint in full: a function that saves also copies weights, renames files
    and waits for the disk, which no hook times. Where the loop was not found, it may be the one around it."""
    counts, hooked = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    for one in samples:
        if one.called is not None and one.line:
            counts[one.call] += one.stack.count
            hooked[one.call] += one.stack.count if one.part == "checkpoint" else 0
    return {call for call, n in counts.items() if n >= SAMPLES_AT_LEAST and hooked[call] >= PART * n}
