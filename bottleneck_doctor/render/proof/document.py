"""What a proof says and in what order: the neutral structure that terminal and markdown lay out."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class TrialRow:
    """One thing that was tried, every number in words; ``notes`` are sentences about it.

    ``range`` and ``interval`` are of ``predicted`` and ``measured``, "" where there is none; ``won`` is the
    row that the headline is about.
    """

    name: str
    predicted: str
    range: str
    measured: str
    interval: str
    losses: str
    memory: str
    verdict: str
    mood: str
    won: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Advised:
    """What to change: the lines of a unified diff, or where there is none why, and the snippet."""

    place: str = ""
    text: str = ""
    diff: list[str] = field(default_factory=list)
    why: str = ""
    snippet: list[str] = field(default_factory=list)
    more: int = 0


@dataclass(frozen=True)
class ProofDocument:
    """A proof in words. ``mood`` is that of its headline: good, bad, open or plain; an expectation has one,
    too, before its text."""

    headline: str
    figures: str
    mood: str
    grounds: list[str]
    command: str
    circumstances: list[str]
    before: str
    rows: list[TrialRow]
    ceiling: str
    missed: list[tuple[str, str]]
    notes: list[str]
    expected: list[tuple[str, str]]
    advised: Advised | None
    cost: str
    track: str
