"""Reads what ``--expect`` wants of a remedy, and holds it against the measured speedup."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from ..model.errors import UsageError
from ..model.gate import CANNOT_SAY, EXCEEDED, HOLDS
from ..model.proof import CEILING, Expected, Proved
from .plan import COMBINATION

SHAPE = re.compile(r"\s*([a-z0-9-]+)\s*([<>=!~]+)\s*(\S+)\s*", re.ASCII)
NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)", re.ASCII)
OPERATORS = (">", ">=", "<", "<=")
LONGEST = 100
NO_REMEDY = (COMBINATION, CEILING)  # rows of the table that are not remedies


def parse_expectation(text: str, known: Collection[str]) -> Expected:
    """``ID OP NUMBER``, a state that shall hold; ``known`` are the ids of all remedies."""
    shown = text if len(text) <= LONGEST else text[:LONGEST] + "..."
    found = SHAPE.fullmatch(text[:LONGEST])
    if found is None:
        raise UsageError(f"--expect {shown!r} is not ID OP NUMBER: write it like 'workers-auto>1.5'")
    name, op, number = found.groups()
    if op not in OPERATORS:
        raise UsageError(f"--expect {shown!r}: no operator {op}, use one of {' '.join(OPERATORS)}")
    check_id(name, [*known, *NO_REMEDY], "--expect")
    value = number.removeprefix("×").removesuffix("x")
    if NUMBER.fullmatch(value) is None or not math.isfinite(float(value)) or float(value) <= 0:
        raise UsageError(f"--expect {shown!r}: expected a speedup above 0, for example 1.5")
    return Expected(name, op, float(value))


def check_id(name: str, known: Collection[str], option: str) -> None:
    """Refuse an id that no remedy has, with the nearest that one has."""
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}" if near else "`bdoc explain` lists them"
    raise UsageError(f"{option} {name[:LONGEST]!r}: no such remedy, {hint}")


def judge(expected: Sequence[Expected], rows: Sequence[Proved], missed: dict[str, str]) -> list[Expected]:
    """Each expectation with its status. The likely value decides; an undecided row whose interval crosses the
    number cannot say, nor can one that was not measured. ``missed``: why some were not tried."""
    by_id = {row.id: row for row in rows}
    return [_judged(one, by_id.get(one.id), missed.get(one.id, "it was not tried")) for one in expected]


def _judged(one: Expected, row: Proved | None, missed: str) -> Expected:
    if row is None:
        return replace(one, status=CANNOT_SAY, why=missed)
    gain = row.measured
    if gain is None:
        return replace(one, status=CANNOT_SAY, why=row.why or f"it was {row.verdict}")
    close = len({_holds(value, one) for value in (gain.low, gain.likely, gain.high)}) > 1
    if close and row.verdict == "undecided":
        why = "a larger --budget narrows the interval"
        return replace(one, status=CANNOT_SAY, measured=gain, why=why, close=True)
    status = HOLDS if _holds(gain.likely, one) else EXCEEDED
    return replace(one, status=status, measured=gain, close=close)


def _holds(value: float, one: Expected) -> bool:
    return {
        ">": value > one.threshold,
        ">=": value >= one.threshold,
        "<": value < one.threshold,
        "<=": value <= one.threshold,
    }[one.op]
