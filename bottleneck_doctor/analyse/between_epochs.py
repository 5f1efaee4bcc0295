"""What passes between two epochs: how long, and what of it is made again though no epoch changes it.

Only the source proves the latter: the statement stands in a loop around the innermost one that trains, and
what it and the functions below it read is bound outside of that loop. What draws at random, calls the model,
or calls a library by a name that does not say that it loads or builds something, is not claimed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import cast

from ..model.code import FunctionSource, Location
from ..model.diagnosis import Diagnosis
from ..model.instruments import Stack
from ..model.loops import Loop, LoopBody
from ..model.profile import Profile
from ..source import code
from ..source.code import Names
from ..source.frames import is_users, parse_frame
from .steps import SAMPLES_AT_LEAST

BATCHES, MODELS, TORCH = "/torch/utils/data/", "/torch/nn/", "/torch/"
RANDOM = re.compile(r"rand|shuffle|permut|choice|\.sample\(|multinomial|normal\(|uniform\(")
SEEDED = re.compile(r"(seed|default_rng|RandomState|Random|Generator)\(\d")
# A library's function that gives the same for the same arguments, by its name.
MAKES = re.compile(r"load|read|open|from|pars|encod|token|build|make|creat|prepar|index|list|dict|[A-Z]")
ITERATES = ("__iter__", "__next__")
AROUND = (ast.If, ast.Try, ast.With)  # what a statement may stand in, and be moved with


@dataclass(frozen=True)
class EpochEnds:
    """The ``share`` of the steps' time that lies between epochs, beyond a usual step; the part of that on the
    CPU; and the part of the samples there in which torch does not compute, 0 where too few were taken."""

    share: float = 0.0
    cpu: float = 1.0
    python: float = 0.0


NO_ENDS = EpochEnds()
FEWEST = 10  # samples between epochs, or nothing is said of what is done there (ours)
NOISE = 0.02  # of the time, below which rows that cross an epoch are longer by chance (ours)


def epoch_ends(profile: Profile, loop: Loop | None) -> EpochEnds:
    """By the rows that cross an epoch's end, and no more than hooks saw pass outside of all loops."""
    life = next((one for one in profile.elapsed if loop is not None and one.pid == loop.pid), None)
    if loop is None or life is None or not loop.loader or len(loop.epochs.t) < 2 or not loop.table.t:
        return NO_ENDS
    table = loop.table
    beside = zip(table.wait_s, table.checkpoint_s, table.logging_s, table.collect_s, strict=True)
    owns = [wall - sum(others) for wall, others in zip(table.wall_s, beside, strict=True)]
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
    if share < NOISE:
        return NO_ENDS
    stacks = stacks_between(profile, loop)
    count = sum(one.count for one in stacks)
    own = sum(one.count for one in stacks if not any(TORCH in frame for frame in one.frames))
    return EpochEnds(share, min(1.0, spent / taken), own / count if count >= FEWEST else 0.0)


def stacks_between(profile: Profile, loop: Loop | None) -> list[Stack]:
    """The samples of the loop's thread between its epochs, where the loop around them was found."""
    if loop is None or not loop.loader or loop.body is None or loop.body.outer is None or loop.thread != 0:
        return []
    return [one for one in _trainers(profile, loop) if _between(profile.sources, one, loop.body)]


def _trainers(profile: Profile, loop: Loop) -> list[Stack]:
    """The samples of the process's main thread."""
    return [
        one for one in profile.stacks
        if one.pid == loop.pid and one.role == "trainer" and "Main" in one.thread
    ]  # fmt: skip


@dataclass(frozen=True)
class MadeAnew:
    """The statement at ``place``, below the loop over epochs at ``before``, with its share of the training's
    time: the part of the samples between epochs that it has, of what hooks saw pass there; without hooks, of
    all samples. ``text`` is the statement, "" of a compound one; in the ``head`` of the loop over batches,
    what that goes over. ``random``: it draws, too."""

    place: Location
    before: Location
    share: float
    text: str
    head: bool
    random: bool
    stacks: tuple[Stack, ...]


@dataclass(frozen=True)
class _Sample:
    """Between epochs: the line in the loop around them, and the user's functions below it."""

    loop: LoopBody
    place: Location
    below: tuple[Location, ...]
    stack: Stack


@dataclass(frozen=True)
class _Made:
    """What of a turn of the loop makes the same in each."""

    place: Location
    text: str
    head: bool
    random: bool


def made_anew(diagnosis: Diagnosis) -> MadeAnew | None:
    """The statement of that kind that takes most; None where there is none, or too little was seen."""
    loop, profile = diagnosis.loop, diagnosis.profile
    inner = loop.body if loop else None
    if loop is None or inner is None or inner.outer is None or loop.thread != 0:
        return None
    stacks = [one for one in _trainers(profile, loop) if _loop_of(one, inner) is not None]
    whole = sum(one.count for one in stacks)
    found: dict[_Made, list[_Sample]] = {}
    computes = set[Location]()  # the model, too
    between = [sample for stack in stacks if (sample := _between(profile.sources, stack, inner)) is not None]
    for one in between:
        made = _made(profile.sources, one, inner)
        if made is not None:
            found.setdefault(made, []).append(one)
        if made is not None and any(MODELS in frame for frame in one.stack.frames):
            computes.add(made.place)
    found = {made: group for made, group in found.items() if made.place not in computes}
    if not found or whole < SAMPLES_AT_LEAST:
        return None
    made, most = max(found.items(), key=lambda group: sum(one.stack.count for one in group[1]))
    count = sum(one.stack.count for one in most)
    if not count:  # met only by samples of who runs and who holds the lock, which are counted apart
        return None
    share = count / whole
    life = next((one for one in profile.elapsed if one.pid == loop.pid), None)
    trained = life.training_s + life.between_s if life is not None and loop.loader else 0.0
    if life is not None and trained > 0:
        share = life.between_s / trained * count / sum(one.stack.count for one in between)
    around = most[0].loop
    return MadeAnew(
        place=made.place,
        before=Location(around.file, around.first, around.function),
        share=share,
        text=made.text,
        head=made.head,
        random=made.random,
        stacks=tuple(one.stack for one in most),
    )


def _depth(stack: Stack, body: LoopBody) -> int | None:
    """Where in the path the loop's own frame is."""
    places = [
        number
        for number, place in enumerate(map(parse_frame, stack.frames))
        if place is not None and place.file == body.file and body.first <= place.line <= body.last
    ]
    return places[-1] if places else None


def _loop_of(stack: Stack, inner: LoopBody) -> tuple[LoopBody, int] | None:
    """The innermost of the loops that the sample lies in, with its own frame's place in the path."""
    body: LoopBody | None = inner
    while body is not None:
        depth = _depth(stack, body)
        if depth is not None:
            return body, depth
        body = body.outer
    return None


def _between(sources: list[FunctionSource], stack: Stack, inner: LoopBody) -> _Sample | None:
    """The sample, where it lies in a loop around the innermost one and not in that; of the innermost loop's
    head only what is called once, before the first turn."""
    found = _loop_of(stack, inner)
    if found is None:
        return None
    body, depth = found
    path = [parse_frame(frame) for frame in stack.frames]
    place, below = path[depth], path[depth + 1 :]
    if body is inner:
        calls = [one for one in below if one is not None]
        if place is None or place.line != inner.first or inner.outer is None or not _begins(calls, sources):
            return None
        body = inner.outer
    users = tuple(one for one in below if one is not None and is_users(one.file) and "<" not in one.function)
    return _Sample(body, place, users, stack) if place is not None else None


def _begins(calls: list[Location], sources: list[FunctionSource]) -> bool:
    """Whether the head of a loop makes what the loop goes over, and is not getting a batch of it."""
    if not calls or any(BATCHES in one.file for one in calls):
        return False
    source = code.source_at(sources, calls[0])
    return calls[0].function.rpartition(".")[2] == "__init__" or (
        source is not None and "yield" not in source.text and source.function not in ITERATES
    )


def _made(sources: list[FunctionSource], sample: _Sample, inner: LoopBody) -> _Made | None:
    """The outermost statement above the sample, from the loop's own down through the user's functions, that
    makes the same in each turn of the loop."""
    path = (sample.place, *sample.below)
    known = [code.source_at(sources, one) for one in path]
    texts = [one for one in known if one is not None]
    if len(texts) < len(path) or any("yield" in one.text for one in texts[1:2]):
        return None
    loop = next((one for one in _statements(texts[0], sample.place) if one.lineno == sample.loop.first), None)
    if not isinstance(loop, code.LOOPS):
        return None
    models = _called_in(sources, inner) - code.MATHS
    found = _unchanged(loop, path[0], texts[1:], models, path[1:2], inner)
    changed, caller = models | _changed(loop, None, path[0].line), cast(ast.stmt, loop)
    for depth in range(1, len(path) if found is None else 0):
        function = next(iter(_statements(texts[depth], path[depth])), None)
        if not isinstance(function, ast.FunctionDef) or found is not None:
            break
        changed |= _given(caller, path[depth - 1].line, function, changed)
        found = _unchanged(function, path[depth], texts[depth + 1 :], changed, path[depth + 1 :][:1], inner)
        caller = function
    return found


def _given(caller: ast.stmt, line: int, function: ast.FunctionDef, changed: Names) -> Names:
    """The function's parameters whose arguments are changed, or not known; those that have names of what is
    changed elsewhere count as well."""
    statement = next(iter(code.statements_around(caller, line)[-1:]), None)
    calls = code.calls_in(statement) if statement is not None else []
    call = next((one for one in calls if code.called(one) == function.name), None)
    given = code.arguments(call, function) if call is not None else None
    if given is None:
        return frozenset(code.parameters(function))
    return frozenset(name for name, value in given.items() if code.names_read(value) & changed)


def _statements(source: FunctionSource, place: Location) -> list[ast.stmt]:
    """Around a line, outermost first; without the indentation of a method's text."""
    return [
        one for one in code.statements_around(code.tree_of(source), place.line) if one.lineno >= source.first
    ]


def _unchanged(
    around: ast.stmt,
    place: Location,
    texts: list[FunctionSource],
    changed: Names,
    called: tuple[Location, ...],
    inner: LoopBody,
) -> _Made | None:
    """The statement of ``around`` at a line, if it and the functions below it read nothing changed."""
    inside = code.statements_around(around, place.line)
    block = next((one for one in inside if not isinstance(one, AROUND)), None)
    if block is None or isinstance(block, ast.Return):
        return None
    head = isinstance(block, ast.For) and block.lineno == inner.first and place.file == inner.file
    part: ast.AST = block.iter if head and isinstance(block, ast.For) else block
    constructs = bool(called) and called[0].function.rpartition(".")[2] == "__init__"
    written = [ast.unparse(part), *(one.text for one in texts)]
    random = any(RANDOM.search(one) and not SEEDED.search(one) for one in written)
    if (random and not constructs) or not (texts or _makes(part)):
        return None
    reads = code.names_read(part).union(*map(code.free_names, texts))
    if not head:
        reads |= code.names_bound(block) & changed  # a model that each fold begins with
    if reads & (changed | _changed(around, None if head else block, block.lineno)):
        return None
    text = "" if isinstance(block, code.BRANCHES) and not head else ast.unparse(part)
    return _Made(Location(place.file, block.lineno, place.function), text, head, random)


def _makes(part: ast.AST) -> bool:
    """Whether all that it calls of libraries loads or builds something, by its name."""
    calls = [one for one in ast.walk(part) if isinstance(one, ast.Call)]
    return bool(calls) and all(MAKES.match(code.called(one).lstrip("_")) for one in calls)


def _called_in(sources: list[FunctionSource], inner: LoopBody) -> Names:
    """What the innermost loop calls: a model is trained there, and others may be."""
    source = code.source_at(sources, Location(inner.file, inner.first, inner.function))
    within = code.statements_around(code.tree_of(source), inner.first)[-1:] if source is not None else []
    lines = (line for loop in within if isinstance(loop, code.LOOPS) for line in loop.body)
    calls = (one for line in lines for one in ast.walk(line) if isinstance(one, ast.Call))
    return code.NO_NAMES.union(*(code.names_read(one.func) for one in calls))


def _changed(around: ast.stmt, block: ast.stmt | None, line: int) -> Names:
    """Names that a turn of the loop gives another value or content: all that it binds, but for those that it
    gives the same again before the line, and those that the block begins itself."""
    mine = set(ast.walk(block)) if block is not None else set()
    inside = [one for one in ast.walk(around) if isinstance(one, ast.stmt) and one is not around]
    others = sorted((one for one in inside if one not in mine), key=lambda one: one.lineno)
    last = {name: one for one in others if one.lineno < line for name in code.names_bound(one)}
    same = {
        name: one for name, one in last.items() if isinstance(one, ast.Assign | ast.With) and _is_plain(one)
    }
    changed = (code.names_bound(around) | _bound(others)) - frozenset(same)
    while more := frozenset(
        name for name, one in same.items() if name not in changed and _reads(one) & changed
    ):
        changed |= more
    adds = [one for one in inside if one in mine and isinstance(one, ast.Expr | ast.AugAssign)]
    begins = _bound(one for one in inside if one in mine and one not in adds) | (frozenset(same) - changed)
    return changed | (_bound(adds) - begins)


def _bound(statements: Iterable[ast.stmt]) -> Names:
    return code.NO_NAMES.union(*map(code.names_bound, statements))


def _is_plain(statement: ast.stmt) -> bool:
    """Whether it calls nothing, or what loads or builds something."""
    return all(MAKES.match(code.called(one).lstrip("_")) for one in code.calls_in(statement))


def _reads(statement: ast.stmt) -> Names:
    return code.NO_NAMES.union(*map(code.names_read, code.header(statement)))
