"""No two files of the package need each other, and no class name is there twice."""

import ast
from collections import Counter, defaultdict
from graphlib import CycleError, TopologicalSorter

from bottleneck_doctor.agent import hooks
from tests.house.law import imports
from tests.house.source import PACKAGE, ROOT, Source, python_sources, tree


def test_no_file_leads_back_to_itself() -> None:
    circle = _circle(_needs(python_sources(f"{PACKAGE}/")))
    assert not circle, f"these files need each other: {circle}; move what both need into a third, or into one"


def test_no_class_name_is_there_twice() -> None:
    found = Counter(
        node.name
        for source in python_sources(f"{PACKAGE}/")
        for node in ast.walk(tree(source))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in found.items() if count > 1] == []


def test_every_hook_that_is_listed_is_there() -> None:
    for where in hooks.HOOKS.values():
        file, _, function = where.partition(".")
        source = Source(file, (ROOT / PACKAGE / "agent" / f"{file}.py").read_text())
        assert function in {node.name for node in tree(source).body if isinstance(node, ast.FunctionDef)}, (
            where
        )


def _needs(sources: list[Source]) -> dict[str, set[str]]:
    """Module -> modules of the package that it imports anywhere."""
    names = {_module(source.file) for source in sources}
    needs: dict[str, set[str]] = defaultdict(set)
    for source in sources:
        for one in imports(source):
            name = one.name if one.name in names else one.name.rpartition(".")[0]
            if name in names and name != _module(source.file):
                needs[_module(source.file)].add(name)
    return needs


def _module(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _circle(needs: dict[str, set[str]]) -> list[str]:
    """Modules that lead from one back to itself; none where there is no such way."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []
