"""Quotes a call of the user's: its function and arguments as text, one line each, secrets masked."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator, Sequence

from ..model.call import Argument, Call

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


def quote(node: ast.Call, source: str, mask: Mask) -> Call | None:
    """The call's text, or None where it is longer than ``LONGEST_CALL``."""
    text = ast.get_source_segment(source, node)
    if text is None or len(text) > LONGEST_CALL:
        return None
    whole = masked(_bracketed(text), mask)
    call = _only_call(parsed(whole))
    return Call(_text(call.func, whole), list(_arguments(call, whole))) if call else None


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
