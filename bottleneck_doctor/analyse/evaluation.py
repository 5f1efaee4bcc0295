"""Finds evaluation without a loader: forward passes within the training loop that nothing is trained on."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from ..model.code import FunctionSource, Location
from ..model.loops import Loop, StepTable
from ..model.profile import Profile
from ..source import code
from ..source.files import users_path
from ..source.purpose import LOG, MEASURE, UNNEEDED, purpose_of
from .loop_parts import LoopSample, samples_in
from .shares import MOST, PART
from .steps import SAMPLES_AT_LEAST

CHANCE = 4.0  # median deviations from the usual step: 2.7 standard deviations of normal noise
# What of a row passes between batches, and its part that does not.
OWN = (("cpu_s", ""), ("process_cpu_s", "wait_cpu_s"), ("runq_s", "wait_runq_s"), ("system_s", ""),
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
        walls, steps = loop.table.wall_s, loop.table.steps
        longer, whole = _longer(walls, steps), sum(walls)
        taken = self.share * whole
        off = min(1.0, taken / sum(longer)) if sum(longer) > 0 else 0.0
        over = max(0.0, taken - sum(longer)) / max(whole - sum(longer), 1e-12)
        evaluated = [off * more + over * (wall - more) for wall, more in zip(walls, longer, strict=True)]
        return replace(loop, table=_less(loop.table, evaluated))


def _longer(walls: list[float], steps: list[int]) -> list[float]:
    """By how much rows are longer than usual, beyond chance."""
    usual = median(wall / count for wall, count in zip(walls, steps, strict=True))
    spread = median(abs(wall / count - usual) for wall, count in zip(walls, steps, strict=True))
    return [
        wall - usual * count if wall / count > usual + CHANCE * spread else 0.0
        for wall, count in zip(walls, steps, strict=True)
    ]


def _less(table: StepTable, seconds: list[float]) -> StepTable:
    """The steps without so many seconds of the loop's own time in each row."""
    columns: dict[str, list[Any]] = {name: list(column) for name, column in vars(table).items()}
    for place, taken in enumerate(seconds):
        own = table.wall_s[place] - table.wait_s[place]
        taken = min(taken, own)
        left = 1 - taken / own if own > 0 else 1.0
        columns["wall_s"][place] -= taken
        for name, within in OWN:
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
