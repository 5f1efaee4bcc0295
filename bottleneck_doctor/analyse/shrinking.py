"""Whether the user's source makes a sample smaller only after the work that a line does on all of it."""

from __future__ import annotations

import ast
import re

from ..model.code import FunctionSource
from . import code
from .code import Names

SHRINKS = re.compile(r"crop|resi[zs]e|shr[iu]nk|thumbnail|downs(?:ample|cale)", re.I)


def is_shrunk_later(source: FunctionSource, line: int) -> bool:
    """Whether a later statement of the function crops or resizes what the one at the line has made."""
    tree, made = code.tree_of(source), code.statement_at(source, line)
    if tree is None or made is None:
        return False
    statements = sorted(
        (one for one in ast.walk(tree) if isinstance(one, ast.stmt)), key=lambda one: one.lineno
    )
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
