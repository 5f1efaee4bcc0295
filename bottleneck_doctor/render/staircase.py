"""What remedies bring together: the first alone, then with the second, and so on."""

from __future__ import annotations

from ..model.report import Remedy
from . import words


def staircase(shown: list[Remedy]) -> str:
    """``together: 1 ×2.5 → with 2 ×2.6 → with 4 ×2.7``; nothing where there is but one stair."""
    stairs: list[tuple[int, str]] = []
    for rank, remedy in enumerate(shown, start=1):
        if remedy.combined_speedup is not None:
            reached = words.ratio(remedy.combined_speedup)
            if not stairs or reached != stairs[-1][1]:
                stairs.append((rank, reached))
    if len(stairs) < 2:
        return ""
    said = [f"{'with ' if place else ''}{rank} {reached}" for place, (rank, reached) in enumerate(stairs)]
    return f"together: {' → '.join(said)}"


def is_alternative(remedy: Remedy, remedies: list[Remedy]) -> bool:
    """Whether the replay saw it add nothing to those above it. What was not replayed may add to them, and
    what shortens the run beside its steps does."""
    above = remedies[: remedies.index(remedy)] if remedy in remedies else []
    said = remedy.predicted_speedup
    replayed = remedy.scope == "step" and said.likely is not None and said.likely > 1
    return replayed and remedy.combined_speedup is None and any(one.combined_speedup for one in above)
