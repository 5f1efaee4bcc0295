"""No file is longer than 500 lines, no function longer than 80."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.house.source import Broken, Source, python_sources, require_none, tree

FILE_LINES = 500
FUNCTION_LINES = 80


def too_long(source: Source) -> Iterator[Broken]:
    """The file, and each of its functions from `def` to its last line, where longer than the limit."""
    if (lines := len(source.text.splitlines())) > FILE_LINES:
        yield Broken(source.file, 1, f"{lines} lines, and {FILE_LINES} is the limit", "split it")
    for node in ast.walk(tree(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if (lines := node.end_lineno - node.lineno + 1) > FUNCTION_LINES:
                rule = f"`{node.name}` has {lines} lines, and {FUNCTION_LINES} is the limit"
                yield Broken(source.file, node.lineno, rule, "move its loops into functions with names")


def test_no_file_and_no_function_is_too_long() -> None:
    require_none(broken for source in python_sources() for broken in too_long(source))


def test_the_rule_itself_counts_lines() -> None:
    long = Source("a.py", "def long():\n" + "    x = 1\n" * 80 + "\n" * 420)
    rules = [one.rule for one in too_long(long)]
    assert rules == ["501 lines, and 500 is the limit", "`long` has 81 lines, and 80 is the limit"]
    assert not list(too_long(Source("b.py", "def short():\n" + "    x = 1\n" * 79)))
