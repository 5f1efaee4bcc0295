"""How much time passes between two epochs, and what the loop's thread does there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from ..model.code import FunctionSource, Location
from ..model.instruments import Stack
from ..model.loops import Loop, LoopBody
from ..model.profile import Profile
from ..source import code
from ..source.files import parse_frame
from .shares import TRACE
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
