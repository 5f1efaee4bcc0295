"""The user's files: frames of call paths, the text and tree of a file, secrets masked in it."""

from __future__ import annotations

import ast
import os
import re
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from io import BytesIO
from tokenize import detect_encoding

from ..model.code import Location

LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3.", "/lib64/python3.")
OURS = ("/bottleneck_doctor/agent/", "/bottleneck_doctor/inject/")
QUEUES = re.compile(r"(\w+\.)?(wait|get|put) \(.*/(threading|queue)\.py:")  # events and futures wait, too
FRAMES = 1 << 14  # and call paths, that are kept taken apart: they are asked for dozens of times


def last_name(function: str) -> str:
    """``step`` of ``Pole.step``; ``<lambda>`` of ``main.<locals>.<lambda>``."""
    return function.rpartition(".")[2]


def is_queued(frames: Iterable[str]) -> bool:
    """Whether the path waits for another thread, in a queue or for a future."""
    return any(map(QUEUES.match, frames))


def is_ours(place: str) -> bool:
    """Whether a file, or a frame, is a hook of this package's."""
    return any(mark in place for mark in OURS)


def is_users(file: str) -> bool:
    """Whether a file is the user's own: no library's, not Python's, no hook."""
    return not file.startswith("<") and not is_ours(file) and not any(mark in file for mark in LIBRARIES)


def users_path(frames: Iterable[str]) -> tuple[Location, ...]:
    """The user's frames of a call path, outermost first."""
    return _users_path(tuple(frames))


@lru_cache(maxsize=FRAMES)
def _users_path(frames: tuple[str, ...]) -> tuple[Location, ...]:
    return tuple(place for place in map(parse_frame, frames) if place is not None and is_users(place.file))


PACKAGE = re.compile(r"/(?:site|dist)-packages/([^/:]+)")


def below_library(frames: Iterable[str]) -> tuple[str, Location | None]:
    """The library whose loop is running, and the user's function that it calls, None while its own code runs;
    ("", None) where the user's own code, or torch's, comes first."""
    places = [place for place in map(parse_frame, frames) if place is not None and not is_ours(place.file)]
    found = ((depth, PACKAGE.search(place.file)) for depth, place in enumerate(places))
    depth, library = next(((depth, match[1]) for depth, match in found if match), (0, ""))
    if library in ("", "torch"):
        return "", None
    return library.removesuffix(".py"), next((one for one in places[depth:] if is_users(one.file)), None)


LINE = re.compile(r"[0-9]{1,9}")  # digits of other scripts are digits to str.isdigit, and none to int


@lru_cache(maxsize=FRAMES)
def parse_frame(frame: str) -> Location | None:
    """``function (file:line)`` as a location."""
    function, _, rest = frame.partition(" (")
    file, _, line = rest.rstrip(")").rpartition(":")
    return Location(file, int(line), function) if file and LINE.fullmatch(line) else None


Mask = Callable[[Sequence[str]], list[str]]

INDENTED = "if 1:\n"  # makes a method's text Python by itself
LARGEST_SOURCE = 1 << 20
ENCODINGS = {"utf-8", "utf-8-sig", "iso-8859-1"}  # as `detect_encoding` names them
unsaved: dict[str, str] = {}  # the text of code that no file holds, as a notebook's cells, by its path


def source_of(path: str) -> str | None:
    """The text of a source file, as Python reads it; None where it is gone, no text or too large."""
    if path in unsaved:
        return unsaved[path]
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None  # reading a pipe would block
        with open(path, "rb") as file:
            data = file.read(LARGEST_SOURCE + 1)
        encoding, _ = detect_encoding(BytesIO(data).readline)
        if len(data) > LARGEST_SOURCE or encoding not in ENCODINGS or b"\0" in data:
            return None
        text = data.decode(encoding)
    except (OSError, ValueError, SyntaxError):
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def tree_at(path: str) -> tuple[str, ast.Module] | None:
    """The text of a file and its tree, which is shared; None where there is neither."""
    text = source_of(path)
    tree = _shared(text) if text is not None else None
    return (text, tree) if text is not None and tree is not None else None


@lru_cache(maxsize=8)
def _shared(text: str) -> ast.Module | None:
    return parsed(text)


def parsed(source: str) -> ast.Module | None:
    """None where the text is not Python, or is Python of a later version than the one that reads it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes: Python has warned the user
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


MASKED = b'"***"'
LITERALS = (ast.JoinedStr, ast.Constant)


def masked(whole: str, mask: Mask) -> str:
    """The source, which must be valid Python, without what looks like a secret."""
    tree, data = parsed(whole), whole.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    spans = [
        (
            starts[node.lineno - 1] + node.col_offset,
            starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0),
        )
        for node in (_secrets(tree, "", mask) if tree else ())
    ]
    for begin, end in sorted(spans, reverse=True):
        data = data[:begin] + MASKED + data[end:]
    return data.decode()


def _secrets(node: ast.AST, name: str, mask: Mask) -> Iterator[ast.expr]:
    """Literals that look like secrets, or stand below a name that does."""
    if isinstance(node, LITERALS):
        if _is_secret(node, name, mask):
            yield node
        return
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            named = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else name
            yield from _secrets(value, named, mask)
        return
    if isinstance(node, ast.keyword):
        name = node.arg or name
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        yield from _secrets(node.value, ast.unparse(target), mask)
        return
    for child in ast.iter_child_nodes(node):
        yield from _secrets(child, name, mask)


def _is_secret(node: ast.expr, name: str, mask: Mask) -> bool:
    parts = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
    found = [part.decode("latin-1") if isinstance(part, bytes) else part for part in parts]
    texts = [text for text in found if isinstance(text, str) and text]
    return any(mask([text]) != [text] or mask([f"{name}={text}"]) != [f"{name}={text}"] for text in texts)
