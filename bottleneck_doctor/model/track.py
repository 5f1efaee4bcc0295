"""How predictions have held on this machine, where the user keeps them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Kept:
    """One remedy that was predicted and measured: a line of the user's own file, no name of a script in it.

    ``at`` is when, as ISO 8601; ``machine`` and ``job`` are hashes; ``predicted`` and ``measured`` are
    speedups (low, likely, high), ``basis`` is the prediction's.
    """

    at: str
    machine: str
    job: str
    remedy: str
    basis: str
    predicted: tuple[float, float, float]
    measured: tuple[float, float, float]
    verdict: str
    scope: str = "step"
    bdoc: str = ""


@dataclass(frozen=True)
class Tally:
    """Of ``tried`` predictions, ``inside`` had the measured speedup in their interval; ``median_error`` is
    the median of |predicted / measured - 1|, None without any."""

    tried: int = 0
    inside: int = 0
    median_error: float | None = None


@dataclass(frozen=True)
class TrackRecord:
    """What is kept at ``path``: over all, and per remedy."""

    path: str
    whole: Tally = field(default_factory=Tally)
    remedies: dict[str, Tally] = field(default_factory=dict)
