"""A script as text and as a tree, the places of one in the other, and the names that it imports."""

from __future__ import annotations

import ast
import bisect
import re
import warnings
from dataclasses import dataclass

BYTE_ORDER_MARK = "\ufeff"
LINE_END = re.compile(rb"\r\n|\r|\n")


class Unsafe(Exception):
    """Why a script is not rewritten: part of a sentence, in the user's words."""


@dataclass(frozen=True)
class Edit:
    """``text`` instead of what stands from ``begin`` to ``end``, offsets in the file's bytes."""

    begin: int
    end: int
    text: str


@dataclass(frozen=True)
class ParsedScript:
    """``data`` is the text without a byte order mark, as the tree's offsets count it; ``starts`` are those of
    its lines. ``names`` are what the file's imports bind, to their dotted names."""

    whole: str
    data: bytes
    tree: ast.Module
    starts: tuple[int, ...]
    names: dict[str, str]

    def begin(self, node: ast.expr | ast.stmt) -> int:
        """Where a node's text begins."""
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        """Where it ends."""
        return self.starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def text(self, node: ast.expr) -> str:
        """As the user wrote it."""
        return self.data[self.begin(node) : self.end(node)].decode()

    def line_at(self, offset: int) -> int:
        """The line of an offset, the first being 1."""
        return bisect.bisect_right(self.starts, offset)

    def line_end(self, line: int) -> int:
        """Behind the last sign of a line, its end not counted."""
        after = self.starts[line] if line < len(self.starts) else len(self.data)
        return after - len(self.newline_of(line))

    def newline_of(self, line: int) -> bytes:
        """How a line ends; b"" for a last one that does not."""
        after = self.starts[line] if line < len(self.starts) else len(self.data)
        ends = LINE_END.findall(self.data[self.starts[line - 1] : after])
        return ends[-1] if ends else b""

    @property
    def newline(self) -> str:
        """How lines end here."""
        return (self.newline_of(1) or b"\n").decode()

    def indent(self, line: int) -> str:
        """What a line begins with."""
        text = self.data[self.starts[line - 1] : self.line_end(line)].decode()
        return text[: len(text) - len(text.lstrip(" \t"))]


def parse(whole: str) -> ParsedScript:
    """The script; raises ``Unsafe`` where this Python cannot read it."""
    data = whole.removeprefix(BYTE_ORDER_MARK).encode("utf-8", "surrogatepass")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's escapes
            tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise Unsafe(f"it cannot be parsed: {problem}") from None
    starts = (0, *(found.end() for found in LINE_END.finditer(data)))
    return ParsedScript(whole, data, tree, starts, _imported(tree))


def dotted(node: ast.expr, names: dict[str, str]) -> str:
    """``torch.optim.AdamW`` of what the script may call ``optim.AdamW``; "" where it is no plain name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([names.get(node.id, node.id), *reversed(parts)])


def _imported(tree: ast.Module) -> dict[str, str]:
    """A name that two imports bind to different things is known by neither."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            pairs = [(one.asname or one.name.partition(".")[0], one) for one in node.names]
            bound = [(name, one.name if one.asname else name) for name, one in pairs]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            bound = [(one.asname or one.name, f"{node.module}.{one.name}") for one in node.names]
        else:
            continue
        for name, meaning in bound:
            found[name] = meaning if found.get(name, meaning) == meaning else name
    return found
