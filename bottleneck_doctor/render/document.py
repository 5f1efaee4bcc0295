"""The texts of a report in their order, as a structure that terminal and markdown lay out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .head import Head


@dataclass(frozen=True)
class Lengths:
    """How much of each list is shown; the rest is counted."""

    findings: int = 3
    points: int = 2
    bars: int = 6
    remedies: int = 3
    gaps: int = 3
    snippet: int = 16
    snippets: int = 1
    risk: int = 100
    functions: int = 5
    libraries: int = 0
    operators: int = 5
    least: float = 0.05
    environment: int = 0
    metrics: int = 0
    ledger: int = 5
    whole: bool = False


WHOLE = Lengths(
    findings=64, points=32, bars=64, remedies=64, gaps=64, snippet=80, snippets=64, risk=4096, whole=True,
    functions=40, libraries=40, operators=40, least=0.0, environment=64, metrics=64, ledger=64,
)  # fmt: skip
# What fits into an issue, and what an assistant is to apply.
ISSUE = Lengths(
    findings=64, points=8, remedies=64, gaps=64, snippet=80, snippets=64, risk=400, functions=10,
    libraries=5, operators=10, environment=64, metrics=64, ledger=8,
)  # fmt: skip
PROMPT = replace(ISSUE, remedies=6, points=4)


@dataclass(frozen=True)
class Bar:
    """One part of the steady step, or of the whole run; ``culprit``: the verdict is about it."""

    part: str
    share: float
    percent: str
    time: str
    culprit: bool = False


@dataclass(frozen=True)
class EvidenceLine:
    """One observation: a sentence, the number, its name and its source."""

    text: str
    number: str
    metric: str
    source: str


@dataclass(frozen=True)
class FindingBlock:
    """One finding and its evidence."""

    id: str
    place: str
    points: list[EvidenceLine]


@dataclass(frozen=True)
class RemedyBlock:
    """One remedy: what to change, where, and what to expect: only a ``ceiling`` where nothing was predicted.
    A ``setting`` answers no cause."""

    id: str
    title: str
    likely: str
    basis: str
    place: str
    text: str
    snippet: list[str]
    apply: str
    effort: str
    risk: str
    alternative: bool = False
    ceiling: bool = False
    setting: bool = False


@dataclass(frozen=True)
class MetricRow:
    """One metric as a row of texts, "" for those that it lacks."""

    name: str
    value: str
    interval: str
    n: str
    source: str


@dataclass(frozen=True)
class HotRow:
    """One function or operator: its own share, also as a number; ``second`` is its share with callees, or its
    time; ``state`` is whether it was on a core or blocked, if sampled."""

    own: str
    second: str
    name: str
    place: str
    share: float
    state: str = ""


@dataclass(frozen=True)
class Hottest:
    """Rows of one kind, and how they were taken; no rows where nothing was."""

    taken: str = ""
    rows: list[HotRow] = field(default_factory=list)
    more: int = 0


@dataclass(frozen=True)
class Document:
    """All texts of a report. Lists are cut to their lengths; ``more_*`` count what was cut."""

    command: str
    circumstances: list[str]
    headline: str
    head: Head
    grounds: list[str]
    step: str
    bars: list[Bar]
    phases: list[str]
    findings: list[FindingBlock]
    more_findings: int
    remedies: list[RemedyBlock]
    more_remedies: int
    together: str
    warnings: list[RemedyBlock]
    gaps: list[str]
    more_gaps: int
    watching: str
    metrics: list[MetricRow]
    functions: Hottest = Hottest()
    libraries: Hottest = Hottest()
    operators: Hottest = Hottest()
    environment: list[tuple[str, str]] = field(default_factory=list)
    device: str = ""
    device_rows: list[tuple[str, str]] = field(default_factory=list)
    ledger: list[Bar] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    one_step: str = "a step"
