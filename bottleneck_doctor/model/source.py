"""The user's source of functions that mattered, as far as a profile keeps it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """The text of a function, or of a module's statement, whose first line is ``first``.

    Comments and docstrings are blanked, secrets masked; lines are as in the file. ``alias`` is another name
    that its callers were seen to call it by, a variable that holds it; empty where there is none.
    """

    file: str
    function: str
    first: int
    text: str
    alias: str = ""
