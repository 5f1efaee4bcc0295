"""No file is longer than 500 lines, no function longer than 80."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.house.source import Broken, Source, python_sources, require_none, tree

FILE_LINES = 500
FUNCTION_LINES = 80

# What is longer today, with its length. These lists only shrink: nothing may grow, nothing may join.
LONG_FILES: dict[str, int] = {}
LONG_FUNCTIONS: dict[str, int] = {}

SPLIT_FILE = "split it: two nouns share this file"
SPLIT_FUNCTION = "push the loops down into functions with names"


def file_lengths(source: Source) -> Iterator[tuple[str, int, int]]:
    """The file's name, the line to look at, and its length."""
    yield source.file, 1, len(source.text.splitlines())


def function_lengths(source: Source) -> Iterator[tuple[str, int, int]]:
    """Each function as `file:name`, where it begins, and its length from `def` to its last line."""
    for node in ast.walk(tree(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield f"{source.file}:{node.name}", node.lineno, node.end_lineno - node.lineno + 1


def test_no_file_is_longer_than_500_lines() -> None:
    lengths = [length for source in python_sources() for length in file_lengths(source)]
    require_none(_too_long(lengths, FILE_LINES, LONG_FILES, SPLIT_FILE))


def test_no_function_is_longer_than_80_lines() -> None:
    lengths = [length for source in python_sources() for length in function_lengths(source)]
    require_none(_too_long(lengths, FUNCTION_LINES, LONG_FUNCTIONS, SPLIT_FUNCTION))


def test_the_lists_of_exemptions_only_shrink() -> None:
    sources = python_sources()
    longest = {name: lines for source in sources for name, _, lines in file_lengths(source)}
    longest |= {name: lines for source in sources for name, _, lines in function_lengths(source)}
    for listed, limit in ((LONG_FILES, FILE_LINES), (LONG_FUNCTIONS, FUNCTION_LINES)):
        stale = [name for name, length in listed.items() if longest.get(name, 0) < max(length, limit + 1)]
        assert not stale, f"{stale} became shorter: lower the number, or take it off the list"


def test_the_rule_itself_counts_a_function_with_its_docstring() -> None:
    long = Source("a.py", "def long():\n" + "    x = 1\n" * 80)
    short = Source("b.py", "def short():\n" + "    x = 1\n" * 79)
    lengths = [*function_lengths(long), *function_lengths(short)]
    assert [b.rule for b in _too_long(lengths, FUNCTION_LINES, {}, SPLIT_FUNCTION)] == [
        "a.py:long has 81 lines, and 80 is the limit"
    ]
    assert not list(_too_long(lengths, FUNCTION_LINES, {"a.py:long": 81}, SPLIT_FUNCTION))


def _too_long(
    lengths: list[tuple[str, int, int]], limit: int, exempt: dict[str, int], do: str
) -> Iterator[Broken]:
    for name, line, lines in lengths:
        if lines > max(limit, exempt.get(name, 0)):
            yield Broken(
                name.partition(":")[0], line, f"{name} has {lines} lines, and {limit} is the limit", do
            )
