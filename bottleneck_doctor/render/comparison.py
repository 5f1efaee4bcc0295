"""Two runs side by side: the verdicts, then each metric and whether it moved beyond the noise."""

from __future__ import annotations

from ..model.gate import Comparison, Difference, Move
from ..model.report import Metric, Verdict
from . import words
from .glossary import BOUNDS

LONGEST_FACT = 80
KINDS = {
    "better": "better",
    "worse": "worse",
    "moved": "moved",
    "noise": "within the noise",
    "unknown": "no interval",
    "absent": "measured in one run only",
}


def comparison_text(comparison: Comparison, encoding: str = "utf-8") -> str:
    """Lines that end in a newline; columns are as wide as what stands in them."""
    before, after = _verdict(comparison.base), _verdict(comparison.new)
    verdict = f"still {after}" if before == after else f"{before} → {after}"
    lines = [verdict, ""]
    rows = [_row(move) for move in sorted(comparison.moves, key=_weight)]
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(4)]
    lines += ["  ".join(map(str.ljust, row, [*widths, 0])) for row in rows]
    changes = [f"gone: {words.plain(', '.join(comparison.gone))}"] if comparison.gone else []
    changes += [f"new: {words.plain(', '.join(comparison.appeared))}"] if comparison.appeared else []
    changes += [f"careful: {difference_text(one)}" for one in comparison.differences]
    lines += ["", *changes] if changes else []
    return words.fit("\n".join(line.rstrip() for line in lines) + "\n", encoding)


def difference_text(difference: Difference) -> str:
    """``different cores: 4 and 8``."""
    before, after = (
        words.short(words.plain(side), LONGEST_FACT) if isinstance(side, str) else words.count(side)
        for side in (difference.base, difference.new)
    )
    return f"different {words.plain(difference.what)}: {before} and {after}"


def _verdict(verdict: Verdict) -> str:
    bound = BOUNDS.get(verdict.bound, words.plain(verdict.bound))
    return bound if verdict.cause == "none" else f"{bound}, {words.plain(verdict.cause)}"


def _row(move: Move) -> tuple[str, str, str, str, str]:
    return (
        words.plain(move.metric),
        _value(move.metric, move.base),
        "→ " + _value(move.metric, move.new),
        _change(move),
        KINDS[move.kind],
    )


def _value(name: str, metric: Metric | None) -> str:
    return words.quantity(name, metric.value if metric else None, metric.unit if metric else "")


def _change(move: Move) -> str:
    """Shares move by points, everything else by a percentage of what it was."""
    if move.delta is None or move.base is None or move.base.value is None:
        return ""
    if move.metric.endswith(("_fraction", "_share")):
        return words.points(move.delta)
    return words.change(move.delta / move.base.value) if move.base.value else ""


def _weight(move: Move) -> int:
    return list(KINDS).index(move.kind)
