"""Keeps the source of the functions with most samples, in the loop's thread and where batches are made."""

from __future__ import annotations

import ast
import io
import os
import tokenize
from collections import Counter
from itertools import pairwise

from ..model.code import FunctionSource, Location
from ..model.instruments import Operation, Stack
from . import code
from .frames import users_path
from .text import INDENTED, Mask, masked, parsed, tree_at

FUNCTIONS_AT_MOST = 24  # with the most samples
LETTERS_AT_MOST = 20_000  # of one function: a longer one is kept around the line that was seen
LETTERS_A_LINE = 40  # about
KINDS = ("checkpoint", "logging", "flush")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def read_sources(
    stacks: list[Stack], operations: list[Operation], cwd: str, mask: Mask | None
) -> list[FunctionSource]:
    """The functions, most samples first, none twice. Without a ``mask`` for secrets nothing is kept."""
    found: dict[tuple[str, int], FunctionSource] = {}
    for place in _places(stacks, operations) if mask is not None else ():
        if len(found) >= FUNCTIONS_AT_MOST:
            break
        source = _read(place, cwd, mask) if not _is_kept(place, found) and mask is not None else None
        if source is not None:
            found.setdefault((source.file, source.first), source)
    return list(found.values())


def _places(stacks: list[Stack], operations: list[Operation]) -> list[Location]:
    """Users' places by samples, those of the functions that they call included: callers show what a result
    is for. Of threads other than the main one only running samples count: those that feed the loop run."""
    seen: Counter[Location] = Counter()
    for stack in stacks:
        count = stack.count if "Main" in stack.thread else stack.running or 0
        for place in set(users_path(stack.frames)) if count else ():
            seen[place] += count
    places = [place for place, _ in seen.most_common()]
    for one in operations:
        if one.kind in KINDS and one.location is not None and one.location.file:
            places.append(one.location)
    return places


def _is_kept(place: Location, found: dict[tuple[str, int], FunctionSource]) -> bool:
    return any(
        one.file == place.file and one.first <= place.line < one.first + one.text.count("\n") + 1
        and one.function == _last(place.function)
        for one in found.values()
    )  # fmt: skip


def _read(place: Location, cwd: str, mask: Mask) -> FunctionSource | None:
    found = tree_at(os.path.join(cwd, place.file))
    node = _around(found[1], place) if found is not None else None
    if found is None or node is None:
        return None
    first, last = _span(node)
    lines = found[0].splitlines(keepends=True)[first - 1 : last]
    kept = _without_words("".join(lines))
    if kept is None or len(kept) > LETTERS_AT_MOST:
        return None
    hidden = _hidden(kept, mask)
    name = node.name if isinstance(node, Function) else _last(place.function)  # never "<listcomp>"
    return FunctionSource(place.file, name, first, hidden) if hidden else None


def _hidden(text: str, mask: Mask) -> str | None:
    """The text with secrets masked; None where that would move its lines, or where it cannot be parsed."""
    before = INDENTED if text[:1].isspace() else ""
    if parsed(before + text) is None:
        return None
    hidden = masked(before + text, mask).removeprefix(before)
    return hidden if hidden.count("\n") == text.count("\n") else None


def _around(tree: ast.Module, place: Location) -> ast.stmt | None:
    """The function of that name around the line, or the module's statement; of a long one the outermost loop
    around the line."""
    holding = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _spans(node, place.line)]
    functions = [node for node in holding if isinstance(node, Function)]
    name = _last(place.function)
    chosen: ast.stmt | None = None
    if name == "<module>":
        chosen = next((node for node in tree.body if _spans(node, place.line)), None)
    elif functions:
        named = [node for node in functions if node.name == name or name.startswith("<")]  # "<lambda>"
        chosen = max(named, key=lambda node: node.lineno, default=None)
    if chosen is None:
        return None
    loops = [node for node in ast.walk(chosen) if isinstance(node, code.LOOPS) and _spans(node, place.line)]
    first, last = _span(chosen)
    return loops[0] if loops and LETTERS_A_LINE * (last - first) > LETTERS_AT_MOST else chosen


def _spans(node: ast.stmt, line: int) -> bool:
    first, last = _span(node)
    return first <= line <= last


def _span(node: ast.stmt) -> tuple[int, int]:
    """First and last line, decorators included."""
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)]), node.end_lineno or node.lineno


def _last(function: str) -> str:
    """``step`` of ``Pole.step``; ``main`` of ``main.<locals>.<lambda>`` stays what it is called there."""
    return function.rpartition(".")[2]


def _without_words(text: str) -> str | None:
    """The code with its comments and docstrings blanked: a profile is passed on, and they may be private."""
    rows = text.splitlines(keepends=True)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return None
    begins = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.NL}
    spans: list[tuple[int, int, int, int, str]] = []
    before = tokenize.NEWLINE
    for one, after in pairwise(tokens):
        alone = before in begins and after.type in (tokenize.NEWLINE, tokenize.COMMENT)
        if one.type == tokenize.COMMENT or (one.type == tokenize.STRING and alone):
            spans.append((*one.start, *one.end, "" if one.type == tokenize.COMMENT else "..."))
        if one.type != tokenize.COMMENT:
            before = one.type
    for first, begin, last, end, instead in reversed(spans):
        for line in range(first, last + 1):
            row = rows[line - 1]
            left, right = begin if line == first else 0, end if line == last else len(row.rstrip("\n"))
            blank = (instead if line == first else "").ljust(right - left)
            rows[line - 1] = row[:left] + blank + row[right:]
    return "".join(rows)
