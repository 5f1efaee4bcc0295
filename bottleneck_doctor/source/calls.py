"""Finds, in the user's source, the call that built a loader, and quotes it as text with secrets masked."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass

from ..model.code import Argument, SourceCall
from .text import Mask, masked, parsed, tree_at

LONGEST_CALL = 1000


def quote(node: ast.Call, source: str, mask: Mask) -> SourceCall | None:
    """The call's text, or None where it is longer than ``LONGEST_CALL``."""
    text = ast.get_source_segment(source, node)
    if text is None or len(text) > LONGEST_CALL:
        return None
    whole = masked(f"({text}\n)", mask)  # in brackets lines may begin anywhere
    call = _only_call(parsed(whole))
    return SourceCall(_text(call.func, whole), list(_arguments(call, whole))) if call else None


def _only_call(tree: ast.Module | None) -> ast.Call | None:
    statement = tree.body[0] if tree and tree.body else None
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return statement.value
    return None


def _arguments(call: ast.Call, whole: str) -> Iterator[Argument]:
    for one in call.args:
        if isinstance(one, ast.Starred):
            yield Argument(_text(one.value, whole), "*")
        else:
            yield Argument(_text(one, whole))
    for keyword in call.keywords:
        yield Argument(_text(keyword.value, whole), keyword.arg or "**")


def _text(node: ast.expr, whole: str) -> str:
    """As the user wrote it; what spans lines is put on one, and loses its comments."""
    text = ast.get_source_segment(whole, node)
    if text is None or "\n" in text:
        text = ast.unparse(node)
    return text if parsed(f"f(x={text})") else f"({text})"


LOADER = "Loader"  # what the names of loaders end with, in torch and in the libraries that subclass it
COMPARED = frozenset(
    "batch_size shuffle num_workers pin_memory drop_last prefetch_factor persistent_workers in_order "
    "collate_fn sampler multiprocessing_context".split()
)  # the keywords of which the agent says whether they arrived


@dataclass(frozen=True)
class Site:
    """Where a call was seen.

    ``columns`` is [line, end line, column, end column] as Python 3.11 and later know it; ``through`` names
    the libraries between the line and the loader, ``names`` the keywords that arrived there.
    """

    file: str
    line: int
    columns: tuple[int, ...] = ()
    through: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()


def read_call(site: Site, cwd: str, mask: Mask) -> SourceCall | None:
    """The call at a place, or None: source gone, changed or not text, or no call that builds a loader."""
    read = tree_at(os.path.join(cwd, site.file))
    if read is None:
        return None
    calls = [node for node in ast.walk(read[1]) if isinstance(node, ast.Call)]
    found = [node for node in calls if _is_at(node, site) and _builds_loader(node, site)]
    return quote(found[0], read[0], mask) if len(found) == 1 else None


def _is_at(node: ast.Call, site: Site) -> bool:
    if site.columns:
        # A bracket closes one call only; on where a call begins, Python versions differ.
        return (node.end_lineno, node.end_col_offset) == (site.columns[1], site.columns[3])
    return site.line in (node.lineno, node.func.end_lineno)


def _builds_loader(node: ast.Call, site: Site) -> bool:
    """Whether its keywords are among those that arrived, and its name one that a loader may have."""
    named = ast.unparse(node.func).rpartition(".")[2]
    looks = named.endswith(LOADER) and named[0].isupper()
    given = {keyword.arg for keyword in node.keywords}
    if site.through:
        return looks  # a library's own loader may take other keywords than torch's
    return (looks or bool(site.columns)) and given & COMPARED <= site.names
