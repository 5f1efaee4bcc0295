"""A call in the user's source as the user wrote it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Argument:
    """One argument as its text; ``name`` is "" for a positional one, ``*`` or ``**`` for an unpacked one."""

    text: str
    name: str = ""


@dataclass(frozen=True)
class Call:
    """``function(arguments)`` as text, secrets masked; ``function`` is what stands before the bracket."""

    function: str
    arguments: list[Argument] = field(default_factory=list)
