"""The files that the house rules read, and the words in which a broken rule is reported."""

import ast
import functools
import io
import os
import shutil
import subprocess
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "bottleneck_doctor"


@dataclass(frozen=True)
class Source:
    """A Python file: its path from the repository's root, and its text."""

    file: str
    text: str


@dataclass(frozen=True)
class Broken:
    """One place where a rule does not hold, and what to do about it."""

    file: str
    line: int
    rule: str
    do: str


def require_none(found: Iterable[Broken]) -> None:
    """Fail with one line for each broken rule: file, line, rule, what to do."""
    lines = [f"{b.file}:{b.line}: {b.rule}\n    {b.do}" for b in found]
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)


@functools.cache
def house_files() -> tuple[str, ...]:
    """Every file that git tracks, or would with the next `git add`, from the root."""
    # Without git or a checkout (an unpacked release) everything but caches and dot-folders is the house.
    names = _listed_by_git() if (ROOT / ".git").exists() and shutil.which("git") else None
    names = names or list(_walk())
    return tuple(sorted(name for name in names if name and (ROOT / name).is_file()))


def _listed_by_git() -> list[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    return os.fsdecode(listing.stdout).split("\0") if listing.returncode == 0 else []


def _walk() -> Iterator[str]:
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__pycache__"]
        yield from (os.path.relpath(os.path.join(folder, name), ROOT) for name in files)


def python_sources(under: str = "") -> list[Source]:
    """The house's Python files whose path starts with `under`."""
    return [read(name) for name in house_files() if name.endswith(".py") and name.startswith(under)]


@functools.cache
def read(file: str) -> Source:
    """A Python file, decoded as Python would."""
    raw = (ROOT / file).read_bytes()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    return Source(file, raw.decode(encoding))


@functools.cache
def tree(source: Source) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(source.text, source.file)


def room_of(file: str) -> str | None:
    """The room that a file lives in: "" for the package's own files, None outside the package."""
    parts = file.split("/")
    if parts[0] != PACKAGE:
        return None
    return parts[1] if len(parts) > 2 else ""
