"""What a remedy is expected to bring: speedups by replay under three assumptions of what it changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...analyse.causes import gain
from ...model.diagnosis import Change, Proposal, Scenario

Factor = tuple[float, float, float]  # speedups: cautious, likely, hopeful
# What is left of a cost after a remedy whose effect was not measured in this run: cautious, likely, hopeful.
PARTLY = (1.0, 0.5, 0.1)  # elsewhere it brought anything between nothing and nearly all (chosen)
MOSTLY = (0.5, 0.1, 0.0)  # elsewhere it removed nearly all (chosen)
WHOLLY = (0.5, 0.0, 0.0)  # it removes all; at worst, half of what was measured was something else (chosen)
NOTHING = (1.0, 1.0, 1.0)  # a speedup: no step gets faster; a failure is averted, or the run is shorter


def left_of(share: float, lefts: Iterable[float]) -> tuple[float, ...]:
    """What is left of a whole if so much is left of its part."""
    return tuple(1 - min(1.0, share) * (1 - left) for left in lefts)


def each(**lefts: Iterable[float]) -> list[Change]:
    """A change for each assumption, from what is left of each cost under all of them."""
    rows = zip(*lefts.values(), strict=True)
    return [Change(**dict(zip(lefts, row, strict=True))) for row in rows]


def spread(scenario: Scenario, low: Change, likely: Change, high: Change) -> Factor:
    """Speedups of one remedy under a cautious, a likely and a hopeful assumption of what it changes."""
    first, *rest = sorted(gain(scenario, change) for change in (low, likely, high))
    return first, rest[0], rest[1]


def priced(remedy: Proposal, scenario: Scenario, *changes: Change, most: Change | None = None) -> Proposal:
    """The remedy with its speedups under three changes, and at most that of ``most``."""
    limit = remedy.most if most is None else gain(scenario, most)
    return replace(remedy, factor=spread(scenario, *changes), most=limit)
