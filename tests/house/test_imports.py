"""Data moves one way: each room imports only what the import law allows it."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from bottleneck_doctor.findings.registry import FAMILIES, entries
from tests.house.law import EXEMPT, LAWS, imports, unlawful
from tests.house.source import PACKAGE, ROOT, Broken, Source, python_sources, require_none, room_of, tree

# What the law says yes and no to, as a reader would try it: room/file, code, lawful.
CASES = [
    ("inject/sitecustomize.py", "import importlib.util", False),
    ("inject/sitecustomize.py", "def go():\n    import importlib.util", True),
    ("agent/rows.py", "from bottleneck_doctor.agent.wire import ROW", False),
    ("agent/rows.py", "import torch", False),
    ("agent/rows.py", "def go():\n    import torch", True),
    ("agent/rows.py", "if TYPE_CHECKING:\n    import torch", True),
    ("model/profile.py", "import os", False),
    ("launch/run.py", "from ..agent.wire import ROW", True),
    ("launch/run.py", "from ..agent import rows", False),
    ("analyse/steps.py", "def go():\n    import_module('bottleneck_doctor.sense')", False),
    ("findings/decode.py", "from .input import loader_in_main", False),
    ("render/page.py", "from ..model.profile import Profile", False),
    ("commands/run.py", "import rich", False),
    ("commands/run.py", "from ..findings import input", False),
    ("__init__.py", "from .analyse import replay", False),
    ("attic/old.py", "import os", False),
]


@pytest.mark.parametrize(("file", "code", "lawful"), CASES)
def test_the_law_itself(file: str, code: str, lawful: bool) -> None:
    shelf = frozenset({f"{PACKAGE}.findings.input"})
    assert (not list(unlawful(Source(f"{PACKAGE}/{file}", code), shelf))) is lawful


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
