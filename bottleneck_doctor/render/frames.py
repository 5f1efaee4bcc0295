"""One frame of a sampled call path in words: its function, and its file as reports show it."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.code import Location
from . import words
from .hottest import place

# Of files that are a library's or Python's own, as installed anywhere.
LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3.", "/lib64/python3.")


@dataclass(frozen=True)
class Frame:
    """``file`` is seen from where the run was started; ``users`` says that it is no library's."""

    function: str
    file: str
    line: int
    users: bool


def read_frame(text: str, cwd: str) -> Frame:
    """From ``function (file:line)``, harmless; what is written otherwise is a function without a file."""
    function, _, rest = text.partition(" (")
    file, _, line = rest.removesuffix(")").rpartition(":")
    if not (file and line.isascii() and line.isdigit() and len(line) < 10):
        return Frame(words.plain(text), "", 0, False)
    shown, _, _ = place(Location(file, int(line), function), cwd).rpartition(":")
    users = not file.startswith("<") and not any(mark in file for mark in LIBRARIES)
    return Frame(words.plain(function), shown, int(line), users)
