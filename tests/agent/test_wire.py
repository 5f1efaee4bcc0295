"""What is written and read is declared: rows in agent/wire.py, facts in assemble/facts.py."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.facts import KINDS, keys
from tests.house.source import PACKAGE, ROOT

AGENT, ASSEMBLE = (sorted((ROOT / PACKAGE / room).glob("*.py")) for room in ("agent", "assemble"))
NAMES = {
    node.targets[0].id  # type: ignore[attr-defined]
    for node in ast.parse((ROOT / PACKAGE / "agent" / "wire.py").read_text()).body
    if isinstance(node, ast.Assign) and getattr(getattr(node.value, "func", None), "id", "") == "_kind"
}
OF_EACH_ROW = {"t", "end", "thread", "kind"}
WORDS = 5


def nodes(files: list[Path]) -> Iterator[ast.AST]:
    """The syntax of all of them."""
    for file in files:
        yield from ast.walk(ast.parse(file.read_text()))


def written() -> Iterator[tuple[str, ast.Call]]:
    """Each ``row(wire.KIND, start, duration, ...)`` of the agent."""
    for node in nodes(AGENT):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "row":
            kind = node.args[0]
            if isinstance(kind, ast.Attribute):
                yield kind.attr, node


def columns(kind: int) -> set[str]:
    """What may be read of a row of that kind."""
    duration, names, thing = wire.KINDS[kind]
    return {duration, *names, thing} | OF_EACH_ROW


def test_no_two_kinds_of_rows_have_the_same_number() -> None:
    """A row of one kind would be read as the other."""
    assert len(NAMES) == len(wire.KINDS) > 30


def test_no_kind_has_more_columns_than_a_row_or_one_twice() -> None:
    for kind, (duration, names, thing) in wire.KINDS.items():
        assert len(names) <= WORDS
        assert len({*names, duration, thing, *OF_EACH_ROW}) == len(names) + 2 + len(OF_EACH_ROW), kind


def test_each_kind_is_written_with_its_columns_and_read() -> None:
    kinds = dict(written())
    later = {"DEVICE_PART", "DEVICE_COPY", "DEVICE_WAIT"}  # written when the device has come past them
    assert kinds.keys() | later == NAMES
    for name, call in written():
        _, names, _ = wire.KINDS[getattr(wire, name)]
        given = call.args[3:]
        if not any(isinstance(one, ast.Starred) for one in given):
            assert len(given[:WORDS]) <= len(names) or len(given) > WORDS, f"{name}, line {call.lineno}"
    read = {node.attr for node in nodes(ASSEMBLE) if isinstance(node, ast.Attribute)}
    assert NAMES <= read


def test_each_column_is_read_by_its_name() -> None:
    """One that nobody reads need not be written; one that is read by another name was renamed."""
    read = {node.attr for node in nodes(ASSEMBLE) if isinstance(node, ast.Attribute)}
    declared = {column for _, names, _ in wire.KINDS.values() for column in names}
    assert declared <= read


def test_what_is_read_of_rows_is_declared() -> None:
    for kind, name, line in looked_up():
        assert name in columns(getattr(wire, kind)), f"{kind}.{name}, line {line}"


def looked_up() -> Iterator[tuple[str, str, int]]:
    """(kind, column, line) of each column that is read in a loop over ``of(wire.KIND)``."""
    for node in nodes(ASSEMBLE):
        loops = [node] if isinstance(node, ast.For) else getattr(node, "generators", [])
        for loop in loops:
            if isinstance(loop.iter, ast.Call) and isinstance(loop.target, ast.Name):
                kinds = [one.attr for one in loop.iter.args if _is_kind(one)]
                for one in ast.walk(node) if len(kinds) == 1 else ():
                    if isinstance(one, ast.Attribute) and getattr(one.value, "id", "") == loop.target.id:
                        yield kinds[0], one.attr, one.lineno


def _is_kind(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "wire" and node.attr in dir(wire)
    )


def test_each_fact_is_declared_with_its_keys() -> None:
    """What a call names; dictionaries that it hands on are seen in real runs (tests/agent/watching.py)."""
    declared = {name: keys(kind).keys() for kind, name in KINDS.items()}
    assert len(declared) == len(KINDS)
    for name, given, line in told():
        assert given <= declared[name], f"{name}, line {line}"


def told() -> Iterator[tuple[str, set[str], int]]:
    """(name, keys, line) of each ``fact(fact="name", key=...)`` of the agent."""
    for node in nodes([*AGENT, *(ROOT / PACKAGE / "agent" / "trial").glob("*.py")]):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "fact":
            given = {one.arg: one.value for one in node.keywords if one.arg}
            name = given.pop("fact")
            if isinstance(name, ast.Constant):
                yield str(name.value), set(given), node.lineno
