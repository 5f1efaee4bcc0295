"""Where in the user's code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Location:
    """A place in the user's code."""

    file: str
    line: int
    function: str = ""
