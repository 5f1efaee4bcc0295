"""The import law: what each room may import, from the house and from elsewhere."""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tests.house.source import PACKAGE, Broken, Source, room_of, tree

STDLIB = frozenset(sys.stdlib_module_names) | {"tomllib"}
FILES = frozenset({"os", "pathlib", "io", "shutil", "tempfile", "glob", "fileinput", "mmap"})
WORLD = FILES | set("time datetime subprocess socket platform resource secrets uuid urllib".split())
NETWORK = frozenset(
    {"socket", "socketserver", "ssl", "http", "urllib", "asyncio", "concurrent", "subprocess"}
)


@dataclass(frozen=True)
class Law:
    """What one room may import beside itself. Folders of the package are named without its name."""

    rooms: frozenset[str] = frozenset()
    third_party: frozenset[str] = frozenset()
    not_stdlib: frozenset[str] = frozenset()


def _law(rooms: str = "", third_party: str = "", not_stdlib: frozenset[str] = frozenset()) -> Law:
    return Law(frozenset(rooms.split()), frozenset(third_party.split()), not_stdlib)


LAWS = {
    "": _law("commands model render inject", "IPython"),
    "inject": _law(not_stdlib=STDLIB - {"os", "sys"}),
    "agent": _law(not_stdlib=NETWORK),
    "source": _law("model"),
    "model": _law("", "msgspec", not_stdlib=WORLD),
    "launch": _law("model agent.wire"),
    "sense": _law("model", "psutil pynvml amdsmi"),
    "assemble": _law("model source agent.wire"),
    "analyse": _law("model source", not_stdlib=WORLD),
    "findings": _law("model source analyse", not_stdlib=WORLD),
    "render": _law("model", "jinja2 rich snakeviz tornado"),
    "export": _law("model", "mlflow opentelemetry prometheus_client tensorboard wandb"),
    "prove": _law("model analyse launch sense", "psutil"),
    "fleet": _law("model", "duckdb"),
    "commands": _law(
        "model source launch sense assemble analyse findings prove render fleet export", "typer tomli"
    ),
}

# Single imports that the law would forbid, each with its reason. This list only shrinks.
EXEMPT = {(f"{PACKAGE}/model/codec.py", "os"): "the one file that reads profile.json takes a path"}


@dataclass(frozen=True)
class Import:
    """One imported name: dotted from the top, and how it was written."""

    name: str
    line: int
    relative: bool
    in_function: bool
    for_types: bool


@cache
def imports(source: Source) -> tuple[Import, ...]:
    """Every import of a file: at the top, in functions, for types only, and by `import_module("…")`."""
    return tuple(_imports(tree(source), source.file, in_function=False, for_types=False))


def _imports(node: ast.AST, file: str, in_function: bool, for_types: bool) -> Iterator[Import]:
    in_function = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for_types = for_types or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
    for name, relative in _names(node, file):
        yield Import(name, node.lineno, relative, in_function, for_types)  # type: ignore[attr-defined]
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, file, in_function, for_types)


def _names(node: ast.AST, file: str) -> list[tuple[str, bool]]:
    match node:
        case ast.Import():
            return [(alias.name, False) for alias in node.names]
        case ast.ImportFrom(level=0):
            return [(f"{node.module}.{alias.name}", False) for alias in node.names]
        case ast.ImportFrom():
            folder = file.split("/")[: -node.level]
            base = ".".join([*folder, node.module] if node.module else folder)
            return [(f"{base}.{alias.name}", True) for alias in node.names]
        case ast.Call(
            func=ast.Name(id="__import__" | "import_module"), args=[ast.Constant(value=str(name)), *_]
        ):
            return [(name, False)]
        case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name)), *_]):
            return [(name, False)]
    return []


def unlawful(source: Source, shelf: frozenset[str]) -> Iterator[Broken]:
    """The imports of a file that the law forbids. `shelf`: the dotted names of the families of findings."""
    room = room_of(source.file)
    assert room is not None, source.file
    if room not in LAWS:
        do = "add the room to the law in tests/house/law.py, with its reason in docs/decisions.md"
        yield Broken(source.file, 1, f"the room `{room}` has no import law", do)
        return
    for found in imports(source):
        wrong = _wrong(room, found, shelf)
        if wrong and (source.file, found.name) not in EXEMPT:
            rule, do = wrong
            yield Broken(source.file, found.line, f"`{room or PACKAGE}` imports `{found.name}`: {rule}", do)


def _wrong(room: str, found: Import, shelf: frozenset[str]) -> tuple[str, str] | None:
    top = found.name.partition(".")[0]
    if top == PACKAGE:
        return _wrong_inside(room, found, shelf)
    if room == "inject":
        once_armed = found.in_function and top in {"importlib", "sitecustomize"}
        if top not in {"os", "sys"} and not once_armed:
            return "the door opens with os and sys, and importlib inside a function", "move it into the agent"
        return None
    if top in STDLIB:
        if top in LAWS[room].not_stdlib:
            return "this room does not touch the world", "let the room that calls it hand the value over"
        return None
    if top in LAWS[room].third_party:
        return None
    if room == "agent":
        # Inside a function it is the user's torch, long imported; at the top it would be ours, and first.
        if top == "torch" and (found.in_function or found.for_types):
            return None
        return (
            "the guest is stdlib only",
            'wait for the user\'s import, or look it up in `sys.modules.get("…")`',
        )
    allowed = ", ".join(sorted(LAWS[room].third_party)) or "nothing"
    return f"third-party code allowed here: {allowed}", "move the use to the room whose law names it"


def _wrong_inside(room: str, found: Import, shelf: frozenset[str]) -> tuple[str, str] | None:
    inside = found.name[len(PACKAGE) + 1 :]
    if room in {"inject", "agent"} and not found.relative:
        return "the guest does not know the package by name", "import it relatively, or do without"
    single = next((name for name in shelf if (found.name + ".").startswith(name + ".")), None)
    if single and room == "findings":
        return (f"`{single}` is a family of findings", "share code through facts.py, remedies.py or analyse")
    if single and room == "commands":
        return f"`{single}` is a family of findings", "ask findings/registry.py"
    if room == "render" and inside.rpartition(".")[2] == "Profile":
        return "renderers do not read the profile", "put what is needed into the report"
    known = inside.partition(".")[0] in LAWS
    if not known or (room and _under(inside, room)) or any(_under(inside, may) for may in LAWS[room].rooms):
        return None  # not known: a name of the package's own `__init__`, such as `__version__`
    allowed = ", ".join(sorted(LAWS[room].rooms)) or "none"
    return f"rooms allowed here: {allowed}", "pass the value along, or move the type to model"


def _under(name: str, prefix: str) -> bool:
    return (name + ".").startswith(prefix + ".")
