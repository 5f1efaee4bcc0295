"""Data moves one way: each room imports only what the import law allows it."""

import ast
from functools import cache

import pytest

from bottleneck_doctor.findings.registry import FAMILIES, entries
from tests.house.law import EXEMPT, LAWS, imports, unlawful
from tests.house.source import PACKAGE, ROOT, Broken, python_sources, require_none, room_of, tree


@pytest.mark.parametrize("room", LAWS)
def test_a_room_imports_only_what_the_law_allows(room: str) -> None:
    sources = [source for source in python_sources(f"{PACKAGE}/") if room_of(source.file) == room]
    require_none(broken for source in sources for broken in unlawful(source, _shelf()))


def test_every_room_has_a_law() -> None:
    rooms = {room_of(source.file) for source in python_sources(f"{PACKAGE}/")}
    assert rooms <= set(LAWS), "give the new room a law in tests/house/law.py"


def test_every_exemption_is_still_needed() -> None:
    made = {(source.file, i.name) for source in python_sources(f"{PACKAGE}/") for i in imports(source)}
    stale = sorted(set(EXEMPT) - made)
    assert not stale, f"the imports {stale} are gone: take them off EXEMPT in tests/house/law.py"


def test_the_door_is_alone_in_its_folder() -> None:
    beside = sorted(p.name for p in (ROOT / PACKAGE / "inject").iterdir() if p.name != "__pycache__")
    assert beside == ["sitecustomize.py"], "whatever lies beside the door is importable in the user's program"


def test_ranking_and_report_name_no_finding() -> None:
    ids, do = {entry.id for entry in entries()}, "what only one finding knows belongs into its family"
    require_none(
        Broken(source.file, node.lineno, f"it names the finding `{node.value}`", do)
        for name in ("ranking", "report", "registry")
        for source in python_sources(f"{PACKAGE}/findings/{name}.py")
        for node in ast.walk(tree(source))
        if isinstance(node, ast.Constant) and node.value in ids
    )


@cache
def _shelf() -> frozenset[str]:
    """The dotted names of the families of findings."""
    return frozenset(f"{PACKAGE}.findings.{name}" for name in FAMILIES)
