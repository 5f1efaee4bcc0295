"""Counts events per time bucket and key in bounded memory: when full, buckets become twice as wide."""

from __future__ import annotations

from collections import Counter

BIN_NS = 500_000_000
MOST_BINS = 4_000


class Bins:
    """Counts per (bucket, key). Doubling the width merges neighbours, so that no count is ever lost."""

    def __init__(self, width_ns: int = BIN_NS, most: int = MOST_BINS) -> None:
        assert width_ns > 0 and most > 0
        self.width_ns = width_ns
        self._widest_ns = width_ns << 30  # stops widening when keys alone outnumber ``most``
        self._most = most
        self._counts: dict[tuple[int, int], Counter[str]] = {}

    def add(self, t_ns: int, key: int, name: str) -> None:
        """Counts one ``name`` of ``key`` at ``t_ns``."""
        place = (t_ns // self.width_ns, key)
        counter = self._counts.get(place)
        if counter is None:
            counter = self._counts[place] = Counter()
        counter[name] += 1
        while len(self._counts) > self._most and self.width_ns < self._widest_ns:
            self._widen()

    def rows(self) -> list[tuple[int, int, dict[str, int]]]:
        """(start of the bucket in ns, key, counts), in order of time."""
        return [
            (bucket * self.width_ns, key, dict(counter))
            for (bucket, key), counter in sorted(self._counts.items(), key=lambda item: item[0])
        ]

    def _widen(self) -> None:
        self.width_ns *= 2
        merged: dict[tuple[int, int], Counter[str]] = {}
        for (bucket, key), counter in self._counts.items():
            merged.setdefault((bucket // 2, key), Counter()).update(counter)
        self._counts = merged
