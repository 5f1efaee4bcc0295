"""Builds the loops of a process: what they consumed, how long they waited, and which lines feed the model."""

from __future__ import annotations

import ast
import os
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import TypeGuard

from ..agent import wire
from ..model.code import Location
from ..model.loops import Epochs, Feed, Loop, LoopBody
from .loaders import Iteration, one_after_another
from .rows import ProcessLog, S, append
from .source_calls import parsed, source_of
from .steps import Gone, Sums, line_up, read_marks, sums, tabulate

EPOCHS_AT_MOST = 256


def read_loops(
    log: ProcessLog, iterations: list[Iteration], origin: int, body: LoopBody | None = None
) -> list[Loop]:
    """One loop per (thread, loader, role)."""
    groups: dict[tuple[int, str, str], list[Iteration]] = {}
    for one in iterations:
        groups.setdefault((one.thread, one.loader, one.role), []).append(one)
    loops = [_loop(log, one_after_another(group), iterations, origin) for group in groups.values()]
    return [replace(loop, body=body) if loop.role == "train" else loop for loop in loops]


def _loop(log: ProcessLog, group: list[Iteration], everything: list[Iteration], origin: int) -> Loop:
    first = group[0]
    points = line_up(group)
    away = evaluations(first, everything) if first.role == "train" else _between(group, everything)
    others = waits_for_others(group, everything) if first.role == "train" else sums([])
    table = tabulate(points, read_marks(log, first.thread), Gone(away, _looks(log, group)), others, origin)
    total = sum(one.batches for one in group)
    return Loop(
        loader=first.loader,
        pid=log.pid,
        thread=first.thread,
        role=first.role,
        steps=total,
        wall_s=sum(table.wall_s),
        wait_s=sum(table.wait_s),
        epochs=_epochs(group, origin),
        table=table,
        backwards=sum(one.backwards for one in group),
        optimizer_steps=sum(one.optimizer_steps for one in group),
        forwards=sum(one.grad is not None for one in group),
        recorded_forwards=sum(one.grad is True for one in group),
    )


def _looks(log: ProcessLog, group: list[Iteration]) -> Sums:
    """What our own close looks took of the loop's time, by the arrival that they belong to."""
    mine = {arrival.t for one in group for arrival in one.arrivals}
    return sums((row.t, row.duration) for row in log.of(wire.SAMPLING) if row.t in mine)


def evaluations(first: Iteration, everything: list[Iteration]) -> Sums:
    """The time that evaluation took on this loop's thread, in pieces during which no training batch came."""
    same = [one for one in everything if one.thread == first.thread and one.role == "evaluation"]
    trained = _trained(first, everything)
    return sums(
        (t, end - t) for t, end in pieces(same) if bisect_left(trained, t) == bisect_left(trained, end)
    )


def _between(group: list[Iteration], everything: list[Iteration]) -> Sums:
    """The time in which an evaluation's thread did not evaluate: from one pass to the next, and while
    training batches came."""
    trained = _trained(group[0], everything)
    gaps = [(one.finish, later.begin) for one, later in pairwise(group) if one.finish < later.begin]
    busy = [
        piece for piece in pieces(group) if bisect_left(trained, piece[0]) < bisect_left(trained, piece[1])
    ]
    return sums((t, end - t) for t, end in gaps + busy)


def _trained(first: Iteration, everything: list[Iteration]) -> list[int]:
    """When training batches came to a thread."""
    same = (one for one in everything if one.thread == first.thread and one.role == "train")
    return sorted(arrival.t for one in same for arrival in one.arrivals)


def pieces(iterations: list[Iteration]) -> list[tuple[int, int]]:
    """From one event of a pass to the next: its begin, its batches, its end."""
    times = [[one.begin, *(arrival.t for arrival in one.arrivals), one.finish] for one in iterations]
    return [(t, end) for one in times for t, end in pairwise(one) if t < end]


def waits_for_others(group: list[Iteration], everything: list[Iteration]) -> Sums:
    """Waits for other training passes that were open at the same time as one of this loop's."""
    numbers = {one.number for one in group}
    mine = sorted((one.begin, one.finish) for one in group)
    begins = [begin for begin, _ in mine]
    latest = list(accumulate((finish for _, finish in mine), max))
    waits = []
    for other in everything:
        same = other.thread == group[0].thread and other.role == "train" and other.number not in numbers
        earlier = bisect_left(begins, other.finish)
        if same and earlier and other.begin < latest[earlier - 1]:
            before = 0
            for arrival in other.arrivals:
                waits.append((arrival.next.t, arrival.next.wait_ns - before))
                before = arrival.next.wait_ns
    return sums(waits)


def _epochs(group: list[Iteration], origin: int) -> Epochs:
    epochs = Epochs()
    for one in group[:EPOCHS_AT_MOST]:
        append(
            epochs, t=(one.begin - origin) * S, build_s=one.build * S, batches=one.batches,
            first_wait_s=one.arrivals[0].next.duration * S if one.arrivals else 0.0,
        )  # fmt: skip
    return epochs


LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3.", "<")
LOOPS_AT_MOST = 4
FILLS = frozenset("append appendleft extend insert add push put store".split())  # and others may only look
DRAWS = re.compile(r"sample|draw|batch|choice")  # in the name of what takes something out of a store
LOOPS = (ast.For, ast.AsyncFor, ast.While)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

LoopStatement = ast.For | ast.AsyncFor | ast.While


@dataclass(frozen=True)
class _Statement:
    """A statement, or the head of a compound one: its lines, the names that it binds and those it uses; of
    these the ones that it only adds to (``fills``), those that it draws from, those that it calls, by
    themselves or a method of theirs, and those that it hands to a call."""

    first: int
    last: int
    binds: frozenset[str]
    uses: frozenset[str]
    fills: frozenset[str]
    draws: frozenset[str]
    calls: frozenset[str]
    hands: frozenset[str]

    def needs(self, other: _Statement) -> bool:
        """Whether it uses what the other binds. What is drawn from a store is not what was added last: a
        replay buffer gives batches, whoever played what is in it."""
        return bool((other.binds & self.uses) - (other.fills & self.draws))


def read_body(chain: Sequence[Location], cwd: str) -> LoopBody | None:
    """The innermost loop around these calls; ``chain`` begins with the innermost call."""
    found: list[tuple[Location, LoopStatement]] = []
    for call in chain:
        if not any(mark in call.file for mark in LIBRARIES):
            source = source_of(os.path.join(cwd, call.file))
            tree = parsed(source) if source is not None else None
            loops = _loops_around(tree, call.line) if tree is not None else []
            # `for weight, slope in zip(weights, grad(loss, weights))` differentiates once, before its turns.
            found += [(call, loop) for loop in loops if call is not chain[0] or not _in_head(loop, call.line)]
    body: LoopBody | None = None
    for call, loop in reversed(found[:LOOPS_AT_MOST]):
        last, name = loop.end_lineno or loop.lineno, call.function or ""
        # A closure that the loop defines for its optimizer differentiates in the loop's own text.
        lines = (one.line for one in chain if one.file == call.file and loop.lineno <= one.line <= last)
        body = LoopBody(call.file, name, loop.lineno, last, _feeds(loop, next(lines)), body)
    return body


def around(body: LoopBody | None, calls: Sequence[Location]) -> LoopBody | None:
    """The innermost of these loops that one of the calls is made in, or of all: a loop over the parts of a
    batch asks for none."""
    one = body
    while one is not None:
        if any(call.file == one.file and one.first <= call.line <= one.last for call in calls):
            return one
        one = one.outer
    return body


def _loops_around(tree: ast.Module, line: int) -> list[LoopStatement]:
    """The loops around a line within the innermost function around it, the innermost first."""
    around = [node for node in ast.walk(tree) if _holds(node, line)]
    functions = [node for node in around if isinstance(node, FUNCTIONS)]
    begin = max((node.lineno for node in functions), default=0)
    loops = [node for node in around if isinstance(node, LOOPS) and node.lineno >= begin]
    return sorted(loops, key=lambda node: -node.lineno)


def _in_head(loop: LoopStatement, line: int) -> bool:
    return not isinstance(loop, ast.While) and loop.body[0].lineno > line >= loop.iter.lineno


def _holds(node: ast.AST, line: int) -> bool:
    first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    return first is not None and last is not None and first <= line <= last


def _feeds(loop: LoopStatement, line: int) -> list[Feed]:
    """The statements of the loop that feed the one at ``line``, and that one last."""
    statements = list(_statements(loop, line))
    at_line = [one for one in statements if one.first <= line <= one.last]
    innermost = max((one.first for one in at_line), default=0)
    trains = [one for one in at_line if one.first == innermost]  # several, where semicolons join them
    found, more = list(trains), trains
    while more:
        needed = frozenset[str]().union(*(one.uses for one in found))
        more = [one for one in statements if one.binds & needed and one not in found]
        found += more
    found = [one for one in found if one not in trains] + trains

    def needs(one: _Statement) -> list[int]:
        return [place for place, other in enumerate(found) if one.needs(other)]

    bound = frozenset[str]().union(*(one.binds for one in statements))

    def calls_too(one: _Statement) -> list[int]:
        handed = one.hands - bound
        return [place for place, other in enumerate(found) if other is not one and other.calls & handed]

    return [Feed(one.first, one.last, needs(one), calls_too(one)) for one in found]


def _statements(node: ast.AST, line: int) -> Iterator[_Statement]:
    """All statements below, compound ones as their heads; what functions do stands for their definition,
    except in the one around the line that trains."""
    if isinstance(node, (ast.For, ast.AsyncFor)):
        yield _statement(node, node.lineno, node.iter.end_lineno or node.lineno, [node.target, node.iter])
    elif isinstance(node, (ast.If, ast.While)):
        yield _statement(node, node.lineno, node.test.end_lineno or node.lineno, [node.test])
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        items: list[ast.AST] = [
            part for one in node.items for part in (one.context_expr, one.optional_vars) if part
        ]
        yield _statement(node, node.lineno, max(getattr(one, "end_lineno", 0) for one in items), items)
    elif isinstance(node, FUNCTIONS) and _holds(node, line):
        pass
    elif isinstance(node, ast.stmt) and not isinstance(node, (ast.Try, ast.Match)):
        yield _statement(node, node.lineno, node.end_lineno or node.lineno, [node])
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield from _statements(child, line)


def _statement(node: ast.stmt, first: int, last: int, parts: Sequence[ast.AST]) -> _Statement:
    names = [one for part in parts for one in _names(part)]
    uses = {_name(one) for one in names if isinstance(one.ctx, ast.Load)}
    binds = {_name(one) for one in names if isinstance(one.ctx, ast.Store)} | set(_changed(node))
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        binds.add(node.name)
    fills = set(_changed(node)) if isinstance(node, ast.Expr) else set[str]()
    draws = {name for part in parts for name in _drawn(part)}
    made = [one for part in parts for one in ast.walk(part) if isinstance(one, ast.Call)]
    calls = {name for call in made if (name := _called(call))}
    hands = {_name(one) for call in made for one in call.args if isinstance(one, ast.Name) or _is_own(one)}
    return _Statement(first, last, *map(frozenset, (binds, uses, fills, draws, calls, hands)))


def _called(call: ast.Call) -> str:
    """``x`` of ``x(...)`` and of ``x.y(...)``, with ``self.x`` for an attribute of the object's own."""
    func = call.func
    while isinstance(func, ast.Attribute) and not _is_own(func):
        func = func.value
    return _name(func) if isinstance(func, ast.Name) or _is_own(func) else ""


def _drawn(node: ast.AST) -> Iterator[str]:
    """``x`` of ``x.sample(8)`` and of ``random.sample(x, 8)``."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and DRAWS.search(ast.unparse(call.func).rpartition(".")[2]):
            yield from map(_name, _names(call))


def _names(node: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
    """Names in it; of ``self.x.y`` the attribute ``self.x``, for all methods share ``self``."""
    if isinstance(node, ast.Name) or _is_own(node):
        yield node
        return
    for child in ast.iter_child_nodes(node):
        yield from _names(child)


def _is_own(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _name(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else f"self.{node.attr}"


def _changed(node: ast.stmt) -> Iterator[str]:
    """Names of what is changed without being bound: ``x[0] = ...``, ``x += ...``, ``x.append(...)``."""
    targets: list[ast.AST] = []
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        targets = [node.target]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = node.value.func
        targets = [called] if isinstance(called, ast.Attribute) and called.attr in FILLS else []
    for target in targets:
        while isinstance(target, (ast.Attribute, ast.Subscript, ast.Starred)) and not _is_own(target):
            target = target.value
        if isinstance(target, ast.Name) or _is_own(target):
            yield _name(target)
