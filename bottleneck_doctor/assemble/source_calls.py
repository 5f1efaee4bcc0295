"""Finds, in the user's source, the call that built a loader, and quotes it as text with secrets masked."""

from __future__ import annotations

import ast
import os
import stat
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from tokenize import detect_encoding

from ..model.code import Argument, SourceCall

LONGEST_CALL = 1000
MASKED = b'"***"'
LITERALS = (ast.JoinedStr, ast.Constant)

Mask = Callable[[Sequence[str]], list[str]]


def parsed(source: str) -> ast.Module | None:
    """None where the user's Python is newer than ours, or the text is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's escapes, which Python has told the user
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def quote(node: ast.Call, source: str, mask: Mask) -> SourceCall | None:
    """The call's text, or None where it is longer than ``LONGEST_CALL``."""
    text = ast.get_source_segment(source, node)
    if text is None or len(text) > LONGEST_CALL:
        return None
    whole = masked(_bracketed(text), mask)
    call = _only_call(parsed(whole))
    return SourceCall(_text(call.func, whole), list(_arguments(call, whole))) if call else None


def _bracketed(text: str) -> str:
    return f"({text}\n)"  # so that lines within it may begin anywhere


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


def masked(whole: str, mask: Mask) -> str:
    """The source, which must be valid Python, without what looks like a secret."""
    tree, data = parsed(whole), whole.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    spans = [
        (
            starts[node.lineno - 1] + node.col_offset,
            starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0),
        )
        for node in (_secrets(tree, "", mask) if tree else ())
    ]
    for begin, end in sorted(spans, reverse=True):
        data = data[:begin] + MASKED + data[end:]
    return data.decode()


def _secrets(node: ast.AST, name: str, mask: Mask) -> Iterator[ast.expr]:
    """Literals that look like secrets, or stand below a name that does."""
    if isinstance(node, LITERALS):
        if _is_secret(node, name, mask):
            yield node
        return
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            said = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else name
            yield from _secrets(value, said, mask)
        return
    if isinstance(node, ast.keyword):
        name = node.arg or name
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        yield from _secrets(node.value, ast.unparse(target), mask)
        return
    for child in ast.iter_child_nodes(node):
        yield from _secrets(child, name, mask)


def _is_secret(node: ast.expr, name: str, mask: Mask) -> bool:
    parts = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
    said = [part.decode("latin-1") if isinstance(part, bytes) else part for part in parts]
    texts = [text for text in said if isinstance(text, str) and text]
    return any(mask([text]) != [text] or mask([f"{name}={text}"]) != [f"{name}={text}"] for text in texts)


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


def read_call(site: Site, cwd: str, mask: Mask) -> SourceCall | None:
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


unsaved: dict[str, str] = {}  # the text of code that no file holds, as a notebook's cells, by its path


def source_of(path: str) -> str | None:
    """The text of a source file, as Python reads it; None where it is gone, no text or too large."""
    if path in unsaved:
        return unsaved[path]
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
