"""The loops around a backward pass, and which of their lines feed it."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..model.code import Location
from ..model.loops import Feed, LoopBody
from . import code
from .code import Names
from .frames import is_users
from .text import tree_at

LOOPS_AT_MOST = 4
FILLS = frozenset("append appendleft extend insert add push put store".split())  # and others may only look
DRAWS = re.compile(r"sample|draw|batch|choice")  # in the name of what takes something out of a store
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPOUND = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith)

LoopStatement = ast.For | ast.AsyncFor | ast.While


@dataclass(frozen=True)
class _Statement:
    """A statement, or the head of a compound one: its lines, the names that it binds and those it uses; of
    these the ones that it only adds to (``fills``), those that it draws from, those that it calls, by
    themselves or a method of theirs, and those that it hands to a call."""

    first: int
    last: int
    binds: Names
    uses: Names
    fills: Names
    draws: Names
    calls: Names
    hands: Names

    def needs(self, other: _Statement) -> bool:
        """Whether it uses what the other binds. Drawing from a store does not need the statement that adds to
        it: a replay buffer returns batches of older data."""
        return bool((other.binds & self.uses) - (other.fills & self.draws))


def read_body(chain: Sequence[Location], cwd: str) -> LoopBody | None:
    """The innermost loop around these calls; ``chain`` begins with the innermost call."""
    found: list[tuple[Location, LoopStatement]] = []
    for call in chain:
        if is_users(call.file):
            read = tree_at(os.path.join(cwd, call.file))
            loops = _loops_around(read[1], call.line) if read is not None else []
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
    around = [node for node in ast.walk(tree) if code.holds(node, line)]
    functions = [node for node in around if isinstance(node, FUNCTIONS)]
    begin = max((node.lineno for node in functions), default=0)
    loops = [node for node in around if isinstance(node, code.LOOPS) and node.lineno >= begin]
    return sorted(loops, key=lambda node: -node.lineno)


def _in_head(loop: LoopStatement, line: int) -> bool:
    return not isinstance(loop, ast.While) and loop.body[0].lineno > line >= loop.iter.lineno


def _feeds(loop: LoopStatement, line: int) -> list[Feed]:
    """The statements of the loop that feed the one at ``line``, and that one last."""
    statements = list(_statements(loop, line))
    at_line = [one for one in statements if one.first <= line <= one.last]
    innermost = max((one.first for one in at_line), default=0)
    trains = [one for one in at_line if one.first == innermost]  # several, where semicolons join them
    found, more = list(trains), trains
    while more:
        needed = code.NO_NAMES.union(*(one.uses for one in found))
        more = [one for one in statements if one.binds & needed and one not in found]
        found += more
    found = [one for one in found if one not in trains] + trains

    def needs(one: _Statement) -> list[int]:
        return [place for place, other in enumerate(found) if one.needs(other)]

    bound = code.NO_NAMES.union(*(one.binds for one in statements))

    def calls_too(one: _Statement) -> list[int]:
        handed = one.hands - bound
        return [place for place, other in enumerate(found) if other is not one and other.calls & handed]

    return [Feed(one.first, one.last, needs(one), calls_too(one)) for one in found]


def _statements(node: ast.AST, line: int) -> Iterator[_Statement]:
    """All statements below, compound ones as their heads; what functions do stands for their definition,
    except in the one around the line that trains."""
    opened = isinstance(node, ast.Try | ast.Match) or (isinstance(node, FUNCTIONS) and code.holds(node, line))
    if isinstance(node, ast.stmt) and not opened:
        yield _statement(node)
        if not isinstance(node, COMPOUND):
            return
    for child in code.inside(node):
        yield from _statements(child, line)


def _statement(node: ast.stmt) -> _Statement:
    parts = code.header(node) if isinstance(node, COMPOUND) else [node]
    nodes = [one for part in parts for one in ast.walk(part)]
    made = [one for one in nodes if isinstance(one, ast.Call)]
    filling = [node.value.func] if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else []
    fills = [one for one in filling if isinstance(one, ast.Attribute) and one.attr in FILLS]
    named = {node.name} if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else set()
    filled, assigned = code.roots(*(one.value for one in fills)), code.assigned(node)
    handed = [one for call in made for one in call.args if isinstance(one, ast.Name) or code.is_own(one)]
    return _Statement(
        first=node.lineno,
        last=max(getattr(one, "end_lineno", None) or node.lineno for one in nodes),
        binds=filled | assigned | named,
        uses=code.names_read(*parts, context=ast.Load),
        fills=filled,
        draws=code.names_read(*(call for call in made if DRAWS.search(code.called(call)))),
        calls=code.roots(*(call.func for call in made)),
        hands=code.names_read(*handed),
    )
