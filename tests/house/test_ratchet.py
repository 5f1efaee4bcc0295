"""No file is longer than 500 lines, no function than 80; what ratchet.json counts only goes down."""

import ast
from collections.abc import Iterator

import pytest

from tests.house import ratchet, words
from tests.house.source import ROOT, Broken, Source, house_files, python_sources, require_none, tree

FILE_LINES = 500
FUNCTION_LINES = 80
PAGES = [file for file in house_files() if file.endswith(".md") and not file.startswith("tests/")]


def test_no_number_is_above_the_file() -> None:
    allowed = ratchet.read()
    require_none(
        Broken("tests/house/ratchet.json", 1, f"{name}: {number}, allowed {allowed[part].get(name, 0)}", do)
        for part, numbers in ratchet.counted().items()
        for name, number in numbers.items()
        if number > allowed[part].get(name, 0)
        for do in [
            f"write: {words.INSTEAD[name]}" if name in words.INSTEAD else "take as much away elsewhere"
        ]
    )


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_plain_words(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    require_none(
        Broken(page, line, f"“{word}”", f"write: {words.INSTEAD[word]}") for line, word in words.found(text)
    )


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
