"""What a profile keeps of the user's code: places, the text of functions, calls as they were written."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Location:
    """A place in the user's code."""

    file: str
    line: int
    function: str = ""


@dataclass(frozen=True)
class FunctionSource:
    """The text of a function, or of a module's statement, whose first line is ``first``.

    Comments and docstrings are blanked, secrets masked; lines are as in the file.
    """

    file: str
    function: str
    first: int
    text: str


@dataclass(frozen=True)
class Argument:
    """One argument as its text; ``name`` is "" for a positional one, ``*`` or ``**`` for an unpacked one."""

    text: str
    name: str = ""


@dataclass(frozen=True)
class SourceCall:
    """``function(arguments)`` as text, secrets masked; ``function`` is what stands before the bracket."""

    function: str
    arguments: list[Argument] = field(default_factory=list)
