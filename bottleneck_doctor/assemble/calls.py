"""Finds, in the user's own source, the call that built a loader: read once, bounded, never guessed."""

from __future__ import annotations

import ast
import os
import stat
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from tokenize import detect_encoding

from ..model.call import Call
from .quotes import Mask, parsed, quote

LARGEST_SOURCE = 1 << 20
ENCODINGS = {"utf-8", "utf-8-sig", "iso-8859-1"}  # as `detect_encoding` names them; any other is a surprise
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


def read_call(site: Site, cwd: str, mask: Mask) -> Call | None:
    """The call at a place, or None: source gone, changed or not text, or no call that builds a loader."""
    source = source_of(os.path.join(cwd, site.file))
    if source is None:
        return None
    found = [node for node in _calls(source) if _is_at(node, site) and _builds_loader(node, site)]
    return quote(found[0], source, mask) if len(found) == 1 else None


@lru_cache(maxsize=4)
def _calls(source: str) -> list[ast.Call]:
    tree = parsed(source)
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree else []


def source_of(path: str) -> str | None:
    """The text of a source file, as Python reads it; None where it is gone, no text or too large."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None  # a pipe would make us wait
        with open(path, "rb") as file:
            data = file.read(LARGEST_SOURCE + 1)
        encoding, _ = detect_encoding(BytesIO(data).readline)
        if len(data) > LARGEST_SOURCE or encoding not in ENCODINGS or b"\0" in data:
            return None
        text = data.decode(encoding)
    except (OSError, ValueError, SyntaxError):
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n")


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
