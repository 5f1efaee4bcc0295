"""One tone in every message: lower case, and no full stop after the first phrase."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.source import PACKAGE, Broken, Source, python_sources, require_none, tree

# Names that are written with a capital wherever they stand. Acronyms and CamelCase need no entry.
PROPER_NAMES = frozenset("Python Linux Ctrl Lightning Accelerate Ray".split())


def ill_toned(source: Source) -> Iterator[Broken]:
    """Messages of `raise X("…")` that begin with a capital or end with a full stop."""
    for node in ast.walk(tree(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in node.exc.args[:1]:
                wrong = _wrong(*_ends(argument))
                if wrong:
                    yield Broken(source.file, node.lineno, *wrong)


def test_messages_begin_lower_case_and_end_without_a_full_stop() -> None:
    require_none(broken for source in python_sources(f"{PACKAGE}/") for broken in ill_toned(source))


@pytest.mark.parametrize(
    ("raised", "broken"),
    [
        ('ValueError("the profile is empty: it has 0 bytes")', False),
        ('ValueError("The profile is empty")', True),
        ('ValueError("the profile is empty.")', True),
        ('ValueError("wait for it...")', False),
        ('ValueError("DataLoader has no length")', False),
        ('ValueError("Python 3.8 is too old")', False),
        ('ValueError(f"{name} is empty.")', True),
        ('ValueError("Cannot read %s" % name)', True),
        ('ValueError("cannot read {}.".format(name))', True),
        ('ValueError("Cannot " + name)', True),
        ("ValueError(name)", False),
        ("ValueError", False),
    ],
)
def test_the_rule_itself_knows_the_tone(raised: str, broken: bool) -> None:
    assert bool(list(ill_toned(Source("a.py", f"raise {raised}")))) is broken


def _wrong(start: str, end: str) -> tuple[str, str] | None:
    word = re.match(r"[A-Za-z/_]+", start)
    if word and re.fullmatch(r"[A-Z][a-z]*", word[0]) and word[0] not in PROPER_NAMES:
        return f"the message begins with a capital: “{start[:50]}”", "begin it lower case"
    if end.endswith(".") and not end.endswith("..."):
        return f"the message ends with a full stop: “{end[-50:]}”", "end it without one"
    return None


def _ends(node: ast.expr) -> tuple[str, str]:
    """The literal text that a message begins and ends with; empty where a value stands."""
    match node:
        case ast.Constant(value=str(text)):
            return text, text
        case ast.JoinedStr(values=[first, *_] as parts):
            return _ends(first)[0], _ends(parts[-1])[1]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _ends(left)[0], _ends(right)[1]
        case ast.BinOp(left=left, op=ast.Mod()):
            return _ends(left)
        case ast.Call(func=ast.Attribute(value=template, attr="format")):
            return _ends(template)
    return "", ""
