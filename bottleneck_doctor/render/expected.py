"""Says of each expectation of ``bdoc prove`` whether it holds."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.gate import CANNOT_SAY, EXCEEDED
from ..model.proof import Expected
from . import words

WORDS = {CANNOT_SAY: "cannot say", EXCEEDED: "fails"}


def expected_lines(expected: Sequence[Expected]) -> list[str]:
    """One line each: what was expected, what was measured, and what follows."""
    return [_line(one) for one in expected]


def _line(one: Expected) -> str:
    asked = f"--expect {one.id} {one.op} {one.threshold:g}"
    said = f"{asked}: {WORDS.get(one.status, 'holds')}"
    if one.measured is not None:
        value, within = words.ratio_within(one.measured.likely, one.measured.low, one.measured.high)
        said += f", measured {value} ({within})"
    close = ", close: the interval crosses it" if one.close and one.status != CANNOT_SAY else ""
    return said + close + (f", {one.why}" if one.why else "")
