"""A call of any layout gets its argument, and nothing else of its file changes: on this repository itself."""

from __future__ import annotations

import ast

import pytest

from bottleneck_doctor.prove.patch.calls import ParsedScript, Unsafe, argument_edits, calls, parse
from tests.house.source import ROOT, house_files

FILES = [name for name in house_files() if name.endswith(".py")][::16]
MOST = 6  # calls a file, from its end


def with_argument(source: ParsedScript, call: ast.Call) -> str:
    """The text in which the call has one argument more."""
    data = source.data
    edits = argument_edits(source, call, {"zz": "1"}, (), is_own=True)
    for edit in sorted(edits, key=lambda one: one.begin, reverse=True):
        data = data[: edit.begin] + edit.text.encode() + data[edit.end :]
    return data.decode()


def without_argument(text: str) -> tuple[int, str]:
    """How many calls have it, and the tree of all the rest."""
    tree, found = ast.parse(text), 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            before = len(node.keywords)
            node.keywords = [one for one in node.keywords if one.arg != "zz"]
            found += before - len(node.keywords)
    return found, ast.dump(tree)


@pytest.mark.parametrize("name", FILES)
def test_a_call_of_any_layout_gets_its_argument_and_nothing_else_changes(name: str) -> None:
    text = (ROOT / name).read_bytes().decode()
    source = parse(text)
    for call in list(calls(source.tree))[-MOST:]:
        try:
            after = with_argument(source, call)
        except Unsafe:
            continue
        assert without_argument(after) == (1, ast.dump(source.tree)), f"line {call.lineno}"
