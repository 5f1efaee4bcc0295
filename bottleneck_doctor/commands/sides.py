"""The profiles that a check is given: read once each, folders opened, nothing counted twice."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..model.errors import UsageError
from ..model.gate import Repeat
from .reading import report_of


def side(names: Sequence[str], origin: str) -> list[Repeat]:
    """The runs behind these names, in their order; ``origin`` is what the names were given to.

    A folder stands for every ``*.json`` in it. Raises ``UsageError`` for an empty name or folder and for a
    profile given twice: counted as two repeats it would promise a precision that nobody measured.
    """
    files = [file for name in names for file in _files(name, origin)]
    seen: dict[str, str] = {}
    for file in files:
        real = os.path.realpath(file)
        if real in seen:
            raise UsageError(f"{origin}: {file!r} is given twice, and is one run only")
        seen[real] = file
    return [Repeat(file, report_of(file)) for file in files]


def apart(base: Sequence[Repeat], new: Sequence[Repeat]) -> None:
    """Refuse a run that is compared with itself, also as a copy: such a gate could never fail."""
    for before in base:
        for after in new:
            if _same_run(before, after):
                names = f"{after.name!r} and the baseline {before.name!r}"
                raise UsageError(f"{names} are the same run: a gate on them cannot fail")


def _same_run(one: Repeat, other: Repeat) -> bool:
    if os.path.realpath(one.name) == os.path.realpath(other.name):
        return True
    first, second = one.report.run, other.report.run
    # To the nanosecond: no two runs took equally long from the same second on.
    return (first.started_at, first.duration_s, first.host) == (
        second.started_at,
        second.duration_s,
        second.host,
    )


def _files(name: str, origin: str) -> list[str]:
    if not name:
        raise UsageError(f"{origin}: the name of a profile is empty; is a variable unset?")
    if not os.path.isdir(name):
        return [name]
    found = sorted(file for file in os.listdir(name) if file.endswith(".json") and not file.startswith("."))
    if not found:
        raise UsageError(f"{origin}: the folder {name!r} holds no profile (*.json)")
    return [os.path.join(name, file) for file in found]
