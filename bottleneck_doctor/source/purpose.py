"""Says what the user's hot function is for: part of the training, a measure, a log; and whether it loops."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache

from ..model.code import FunctionSource, Location
from ..model.instruments import Stack
from . import code
from .code import Names
from .files import last_name, parse_frame, users_path

READS_VALUES = frozenset("item tolist numpy argmax topk".split())
MEASURES = re.compile(
    r"metric|accura|(^|_)acc(_|$)|score|confusion|(^|_)auc|precision|recall|(^|_)f1|(^|_)m?iou|bleu|rouge"
    r"|perplex|correct|(^|_)meter"
)
FORCES = frozenset("flush fsync fdatasync msync commit".split())  # returns when the disk has it
MOST = 0.8  # of a function's samples, or what it is for is not known (chosen)

TRAINING, MEASURE, LOG, UNNEEDED, UNKNOWN = "training", "measure", "log", "unneeded", ""


@dataclass(frozen=True)
class Purpose:
    """What a function's samples are for: ``training`` (its result flows into the loss), ``measure``, ``log``
    (it is written out), ``unneeded`` (nothing that is trained needs it), "" where it is not known.

    ``repeats``: its line runs in a loop within the step, element by element. ``seldom``: it is not done in
    each step, but at every n-th, or between inner loops. ``caller`` is the line of the training loop that
    leads there, ``line`` that of the function itself. ``forced``: seen in a call that waits for the disk,
    which is writing whatever else is done with what is written.
    """

    what: str = UNKNOWN
    repeats: bool = False
    seldom: bool = False
    caller: Location | None = None
    line: Location | None = None
    forced: bool = False


NO_PURPOSE = Purpose()


def purpose_of(sources: list[FunctionSource], stacks: list[Stack]) -> Purpose:
    """What most of these samples are for."""
    votes: Counter[Purpose] = Counter()
    for stack in stacks:
        votes[purpose_at(sources, stack)] += stack.count
    total = sum(votes.values())

    def share(what: str) -> float:
        return sum(count for one, count in votes.items() if one.what == what) / total if total else 0.0

    what = max((one.what for one in votes), key=share, default=UNKNOWN)
    if share(what) < MOST:
        return Purpose()
    best = max((one for one in votes if one.what == what), key=lambda one: votes[one])
    repeats = sum(count for one, count in votes.items() if one.repeats) >= MOST * total
    return replace(best, repeats=repeats)


def purpose_at(sources: list[FunctionSource], stack: Stack) -> Purpose:
    """What one call path is for."""
    path = users_path(stack.frames)
    found = _purpose(tuple(sources), path)
    if found.caller is None or found.what == LOG:  # not below the loop that trains, or a log's own flush
        return found
    return replace(found, what=LOG, forced=True) if _forces(sources, stack, path) else found


def _forces(sources: list[FunctionSource], stack: Stack, path: tuple[Location, ...]) -> bool:
    """Whether the disk is waited for there: by a library's function of such a name, or one in C that the
    user's line calls."""
    inner = parse_frame(stack.frames[-1])
    if inner is None or not path:
        return False
    if inner != path[-1]:
        return last_name(inner.function) in FORCES
    return forced_at(sources, inner)


def forced_at(sources: list[FunctionSource], place: Location) -> bool:
    """Whether the statement at a line calls something that waits for the disk."""
    source = code.source_at(sources, place)
    statement = code.statement_at(source, place.line) if source is not None else None
    return statement is not None and any(code.called(call) in FORCES for call in code.calls_in(statement))


@lru_cache(maxsize=4)
def trainers(sources: tuple[FunctionSource, ...]) -> code.Names:
    """Functions that run a backward pass, themselves or by what they call."""
    known = code.NO_NAMES
    while True:
        found = frozenset(one.function for one in sources if code.trains(one, known))
        found -= {"<module>", "forward", "__call__"}
        if found <= known:
            return known
        known |= found


@lru_cache(maxsize=64)
def taken_from_module(sources: tuple[FunctionSource, ...], caller: FunctionSource) -> code.Names:
    """Names that the functions which run a backward pass for ``caller`` take from the module, not from its
    arguments."""
    known = [one for one in sources if one is not caller and code.runs_backward(one, trainers(sources))]
    return code.NO_NAMES.union(*(code.free_names(one) for one in known if code.calls(caller, one.function)))


@lru_cache(maxsize=1024)
def _purpose(sources: tuple[FunctionSource, ...], path: tuple[Location, ...]) -> Purpose:
    """Follow a path from the loop that trains to the function that was seen."""
    found: Purpose | None = None
    for depth, place in enumerate(path):
        source = code.source_at(sources, place)
        statement = code.statement_at(source, place.line) if source is not None else None
        if source is None or statement is None:
            continue
        apart = found is not None and found.what in (MEASURE, LOG, UNNEEDED)
        if (code.runs_backward if apart else code.trains)(source, trainers(sources)):
            found = _at_training(sources, path, depth, source, statement)
        elif found is not None:
            repeats = found.repeats or code.is_repeated(source, place.line)
            found = replace(found, what=_below(found.what, source, statement, place), repeats=repeats)
    return replace(found, line=path[-1]) if found is not None else Purpose()


def _at_training(
    sources: tuple[FunctionSource, ...],
    path: tuple[Location, ...],
    depth: int,
    source: FunctionSource,
    statement: ast.stmt,
) -> Purpose:
    """What a line of a function that trains is for."""
    training, place = trainers(sources), path[depth]
    shared = taken_from_module(sources, source)
    below = path[depth + 1] if depth + 1 < len(path) else None
    within = code.training_statement(source, training)
    repeats = code.is_repeated(source, place.line, within)
    seldom = within is not None and code.is_seldom(source, statement, within)
    if (below is not None and last_name(below.function) in training) or code.feeds_training(
        source, statement, training, shared
    ):
        what = TRAINING
    elif (code.writes(statement) and not _only_reports(sources, below, statement)) or (
        code.is_written(source, statement) and (below is None or code.source_at(sources, below) is None)
    ):
        what = LOG  # a function of the user's own computes what is written, or its source says that it writes
    elif _may_change(sources, below, source, statement):
        what = UNKNOWN
    else:
        what = MEASURE if _measures(statement) else UNNEEDED
    return Purpose(what, repeats, seldom, place)


def _only_reports(sources: tuple[FunctionSource, ...], below: Location | None, statement: ast.stmt) -> bool:
    """Whether the function below evaluates and the statement only tells what it returned; one that turns what
    it is given into what is written is part of the writing."""
    if below is None or not code.hands_over(statement, last_name(below.function)):
        return False
    source = code.source_at(sources, below)
    return source is not None and code.GRADIENTS_OFF.search(source.text) is not None


def _may_change(
    sources: tuple[FunctionSource, ...], below: Location | None, source: FunctionSource, statement: ast.stmt
) -> bool:
    """Whether a call whose result is not needed may change an argument that the training needs."""
    needed = code.needed_to_train(source, trainers(sources), taken_from_module(sources, source))
    if not needed & code.names_read(
        *(one for call in code.calls_in(statement) for one in code.given_to(call))
    ):
        return False
    if below is None:  # something that is not written in Python, or a library
        return isinstance(statement, ast.Expr) and not _measures(statement)
    called = code.source_at(sources, below)
    return called is None or code.changes_arguments(called)


def _below(what: str, source: FunctionSource, statement: ast.stmt, place: Location) -> str:
    """What is known from the loop's line, and from a function that it calls."""
    if what not in (UNNEEDED, MEASURE):
        return what
    if code.is_written(source, statement):
        return LOG
    named = MEASURES.search(place.function.lower()) is not None
    return MEASURE if what == MEASURE or named or _measures(code.tree_of(source)) else UNNEEDED


def _measures(node: ast.AST) -> bool:
    """Whether it reads values out of tensors, or says by its names that it measures."""
    calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
    names = [name for call in calls for name in (code.called(call), *code.names_read(call.func))]
    return any(name in READS_VALUES or MEASURES.search(name.lower()) is not None for name in names)


SHRINKS = re.compile(r"crop|resi[zs]e|shr[iu]nk|thumbnail|downs(?:ample|cale)", re.I)


def is_shrunk_later(source: FunctionSource, line: int) -> bool:
    """Whether a later statement of the function crops or resizes what the one at the line has made."""
    made = code.statement_at(source, line)
    if made is None:
        return False
    statements = sorted(code.statements(code.tree_of(source)), key=lambda one: one.lineno)
    counters = code.NO_NAMES.union(*(code.names_bound(one) for one in statements if isinstance(one, ast.For)))
    carried = code.names_bound(made)
    for later in (one for one in statements if one.lineno > made.lineno):
        nodes = [node for part in code.header(later) for node in ast.walk(part)]
        if any(_shrinks(node, carried, counters) for node in nodes):
            return True
        if any(code.names_read(node) & carried for node in nodes):
            carried |= code.names_bound(later)
    return False


def _shrinks(node: ast.AST, carried: Names, counters: Names) -> bool:
    """A call by such a name, or two ranges of an array; the counters of loops pick single elements."""
    if isinstance(node, ast.Call):
        return bool(SHRINKS.search(code.called(node)) and code.names_read(node) & carried)
    if not (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)):
        return False
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
    ranges = [one for one in parts if isinstance(one, ast.Slice) and (one.lower or one.upper)]
    named = [one for one in parts if isinstance(one, ast.Name) and one.id not in counters]
    return len(ranges) + len(named) > 1 and bool(code.names_read(node.value) & carried)
