"""Chooses how often a sensor may read, so that reading costs at most a hundredth of a core."""

from __future__ import annotations

MOST_CORE_SHARE = 0.01
SMOOTHING = 0.02  # weight of the newest reading: one expensive look must not starve, and so bias, the next


class Pace:
    """The period that the smoothed cost of a reading allows, within its bounds."""

    def __init__(self, shortest_ns: int, longest_ns: int, smoothing: float = SMOOTHING) -> None:
        assert 0 < shortest_ns <= longest_ns and 0 < smoothing <= 1
        self.shortest_ns = shortest_ns
        self._longest_ns = longest_ns
        self._smoothing = smoothing
        self._cost_ns = 0.0

    @property
    def period_ns(self) -> int:
        """The time to let pass between two readings."""
        affordable_ns = int(self._cost_ns / MOST_CORE_SHARE)
        return max(self.shortest_ns, min(self._longest_ns, affordable_ns))

    def spent(self, cost_ns: int) -> None:
        """Takes note of what one reading cost in CPU time of the reading thread."""
        self._cost_ns += self._smoothing * (cost_ns - self._cost_ns)
