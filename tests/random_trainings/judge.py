"""Hold a report against what taking parts out gained: pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.random_trainings.parts import Part

WORTHWHILE = 1.05
CLOSE = 0.9  # of the best gain
WAIT_TOLERANCE = 0.02
UNEXPLAINED = re.compile(r"unexplained|remainder|rest|left|other|unknown", re.IGNORECASE)


@dataclass(frozen=True)
class Answer:
    """What measuring says: the part whose removal gained most, and every bound and cause that is right."""

    best: str
    gain: float
    bounds: frozenset[str]
    causes: frozenset[str]


@dataclass(frozen=True)
class Row:
    """One seed's line of the table. A judgement of ``None`` means that there is nothing to judge.

    ``others`` is the most cores that other processes used during any of the runs: above a few tenths, the
    times say little.
    """

    seed: int
    focus: str
    best: str
    gain: float
    gains: dict[str, float]
    bounds: list[str]
    causes: list[str]
    bound: str
    cause: str
    confidence: str
    bound_right: bool
    cause_right: bool
    wait_truth: float | None
    wait: float | None
    wait_right: bool | None
    remedy: str
    unexplained: float | None
    same_status: bool
    same_output: bool
    wall_s: float
    others: float = 0.0


def answer(parts: Sequence[Part], gains: Mapping[str, float]) -> Answer:
    """The part that gains most, those within a tenth of it, or none where nothing gains five percent."""
    best = max(gains, key=lambda name: gains[name])
    gain = gains[best]
    enough = max(WORTHWHILE, CLOSE * gain)
    right = [part for part in parts if gain >= WORTHWHILE and gains[part.name] >= enough]
    bounds = frozenset().union(*(part.bounds for part in right))
    causes = frozenset().union(*(part.causes for part in right))
    if gain * CLOSE < 1.0:
        bounds, causes = bounds | {"balanced"}, causes | {"none"}
    return Answer(best if gain >= WORTHWHILE else "none", gain, bounds, causes)


def row(
    seed: int,
    focus: str,
    parts: Sequence[Part],
    gains: Mapping[str, float],
    report: Mapping[str, Any] | None,
    *,
    wait_truth: float | None,
    wall_s: float,
    same_status: bool,
    same_output: bool,
    others: float = 0.0,
) -> Row:
    """One report held against one training's truth; no report is a wrong one."""
    true = answer(parts, gains)
    report = report or {}
    verdict = report.get("verdict") or {}
    bound, cause = str(verdict.get("bound", "no report")), str(verdict.get("cause", "no report"))
    wait = ((report.get("metrics") or {}).get("data_wait_fraction") or {}).get("value")
    remedies = report.get("remedies") or []
    return Row(
        seed=seed,
        focus=focus,
        best=true.best,
        gain=true.gain,
        gains=dict(gains),
        bounds=sorted(true.bounds),
        causes=sorted(true.causes),
        bound=bound,
        cause=cause,
        confidence=str(verdict.get("confidence", "")),
        bound_right=bound in true.bounds,
        cause_right=cause in true.causes,
        wait_truth=wait_truth,
        wait=wait,
        wait_right=_wait_right(wait, wait_truth),
        remedy=remedies[0]["id"] if remedies else "",
        unexplained=_unexplained(report.get("ledger") or []),
        same_status=same_status,
        same_output=same_output,
        wall_s=wall_s,
        others=others,
    )


def _wait_right(wait: float | None, truth: float | None) -> bool | None:
    """Nobody can be held to a wait where the script fetches nothing: there, no figure is right too."""
    if truth is None or (wait is None and truth == 0.0):
        return None
    return wait is not None and abs(wait - truth) <= WAIT_TOLERANCE


def _unexplained(ledger: Sequence[Mapping[str, Any]]) -> float | None:
    if not ledger:
        return None
    return sum(one["share"] for one in ledger if UNEXPLAINED.search(one["part"]))


def totals(rows: Sequence[Row]) -> dict[str, tuple[int, int]]:
    """How many of how many: the figures that count."""
    waits = [one.wait_right for one in rows if one.wait_right is not None]
    sure = [one for one in rows if one.confidence not in ("low", "")]
    return {
        "bound": (sum(one.bound_right for one in rows), len(rows)),
        "cause": (sum(one.cause_right for one in rows), len(rows)),
        "data wait within 2 points": (sum(waits), len(waits)),
        "wrong with more than low confidence": (
            sum(not (one.bound_right and one.cause_right) for one in sure), len(sure)),
        "same exit status": (sum(one.same_status for one in rows), len(rows)),
        "same output": (sum(one.same_output for one in rows), len(rows)),
    }  # fmt: skip
