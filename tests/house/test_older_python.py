"""The guest runs in the user's interpreter, which may be Python 3.9; ruff checks its syntax."""

import ast
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source import PACKAGE, ROOT, Broken, Source, python_sources, require_none, tree

TYPES = frozenset("int str float bool bytes list dict tuple set frozenset object type None".split())

# What came after 3.9 and no parser complains about: attributes and imported names, then keywords of calls.
TOO_NEW = frozenset(
    "orig_argv stdlib_module_names UnionType NoneType EllipsisType ParamSpec Concatenate TypeAlias TypeGuard "
    "Self Never assert_never override pairwise batched aclosing tomllib ExceptionGroup bit_count anext aiter "
    "add_note file_digest".split()
)
TOO_NEW_KEYWORDS = {"zip": {"strict"}, "dataclass": {"slots", "kw_only"}}


def too_new(source: Source) -> Iterator[Broken]:
    """What Python 3.9 would stumble over at run time."""
    do = "write it as Python 3.9 knows it"
    module = tree(source)
    annotations = set(_annotations(module)) if _postpones_annotations(module) else set()
    for node in ast.walk(module):
        if id(node) not in annotations:
            what = _too_new(node)
            if what:
                yield Broken(source.file, getattr(node, "lineno", 1), f"newer than Python 3.9: {what}", do)


def test_the_guest_is_written_in_python_3_9() -> None:
    rooms = ("agent", "inject")  # all that the user's own interpreter reads
    guests = [source for room in rooms for source in python_sources(f"{PACKAGE}/{room}/")]
    assert guests
    require_none(broken for source in guests for broken in too_new(source))


def test_the_guest_starts_in_python_3_9(tmp_path: Path) -> None:
    python = _python_3_9()
    if python is None:
        pytest.skip("no python3.9 on PATH to start it in")
    start = "import sys; print(sorted(name for name in sys.modules if name.startswith('_bdoc_agent')))"
    environment = {
        "PYTHONPATH": str(ROOT / PACKAGE / "inject"),
        "BDOC_AGENT": str(ROOT / PACKAGE / "agent"),
        "BDOC_RUN": str(tmp_path),
    }
    command = [python, "-B", "-c", start]
    done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "'_bdoc_agent'" in done.stdout, "the agent was not loaded, or withdrew after an error"


def _too_new(node: ast.AST) -> str | None:
    match node:
        case ast.BinOp(op=ast.BitOr(), left=left, right=right) if _is_type(left) or _is_type(right):
            return "`X | Y` of types at run time"
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, ast.BinOp(op=ast.BitOr())]):
            return "`isinstance(x, X | Y)`"
        case ast.Call(func=ast.Name(id=name), keywords=keywords):
            new = TOO_NEW_KEYWORDS.get(name, set()) & {keyword.arg for keyword in keywords}
            return f"`{name}({min(new)}=…)`" if new else None
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.alias(name=name) if name in TOO_NEW:
            return f"`{name}`"
    return None


def _is_type(node: ast.expr) -> bool:
    named = isinstance(node, ast.Name) and node.id in TYPES
    return named or (isinstance(node, ast.Constant) and node.value is None)


def _postpones_annotations(module: ast.Module) -> bool:
    froms = [node for node in module.body if isinstance(node, ast.ImportFrom)]
    return any(node.module == "__future__" and node.names[0].name == "annotations" for node in froms)


def _annotations(module: ast.Module) -> Iterator[int]:
    """The ids of all nodes inside annotations."""
    for node in ast.walk(module):
        for note in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(note, ast.AST):
                yield from (id(inner) for inner in ast.walk(note))


def _python_3_9() -> str | None:
    python = shutil.which("python3.9")
    if python is None:
        return None
    # A version manager may have put a stand-in there: ask it for the interpreter behind it, if there is one.
    question = [python, "-c", "import sys; print(sys.executable)"]
    return subprocess.run(question, text=True, capture_output=True, check=False).stdout.strip() or None
