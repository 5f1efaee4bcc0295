"""The first line of each file says what it is; what others may call says what it does."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.house.source import PACKAGE, Broken, Source, python_sources, require_none, tree


def first_line(source: Source) -> Iterator[Broken]:
    """What is wrong with a file's first line, as one sentence that says what the file is."""
    doc = ast.get_docstring(tree(source))
    if not doc:
        yield Broken(
            source.file, 1, "the file does not say what it is", "begin it with a docstring of one sentence"
        )
        return
    line = doc.splitlines()[0].strip()
    if not line.endswith((".", "?", "!")):
        do = "make the docstring's first line one whole sentence, ended by a full stop"
        yield Broken(source.file, 1, f"the first line is no sentence: “{line}”", do)


def undocumented(source: Source) -> Iterator[Broken]:
    """Public functions and classes of a file that say nothing about themselves."""
    for node in tree(source).body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if not node.name.startswith("_") and not ast.get_docstring(node):
            do = "say in a docstring what it does, or make it private with an underscore"
            yield Broken(source.file, node.lineno, f"`{node.name}` is public and says nothing", do)


def test_the_first_line_of_each_file_says_what_it_is() -> None:
    require_none(broken for source in python_sources() for broken in first_line(source))


def test_public_functions_and_classes_say_what_they_do() -> None:
    require_none(broken for source in python_sources(f"{PACKAGE}/") for broken in undocumented(source))


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ('"""The budget of a step."""', False),
        ('"""The budget of a step\nand what is in it."""', True),
        ("import os", True),
        ("# a comment\nx = 1", True),
    ],
)
def test_the_rule_itself_wants_one_sentence(text: str, broken: bool) -> None:
    assert bool(list(first_line(Source("a.py", text)))) is broken


def test_the_rule_itself_spares_what_is_private() -> None:
    text = "def _inner(): pass\ndef outer(): pass\nclass Thing:\n    '''A thing.'''\n"
    assert [broken.rule for broken in undocumented(Source("a.py", text))] == [
        "`outer` is public and says nothing"
    ]
