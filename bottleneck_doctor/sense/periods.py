"""Chooses how often a sensor reads, for a hundredth of a core at most and in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.instruments import Sample

MOST_CORE_SHARE = 0.01
SMOOTHING = 0.02  # weight of the newest reading: one expensive look must not starve, and so bias, the next


class AdaptivePeriod:
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


PERIOD_NS = 500_000_000
CALM_PERIOD_NS = 2_000_000_000
CALM_AFTER_NS = 120_000_000_000
LONGEST_PERIOD_NS = 30_000_000_000
MOST_SAMPLES = 2_000
SMOOTHING_OF_RARE = 0.5  # readings are rare: believe the last ones
GOLDEN = 0.6180339887498949  # the fractions of its multiples fill the unit interval evenly


class Track:
    """When to read next, and what was read. Thinning keeps every second reading and doubles the period.

    ``roaming``: readings come sooner and later by turns (0.62 and 1.62 periods), so that what repeats itself
    with the period is seen in every phase alike.
    """

    def __init__(self, now_ns: int, most: int = MOST_SAMPLES, roaming: bool = False) -> None:
        assert most >= 2
        self.next_ns = now_ns
        self.pace = AdaptivePeriod(PERIOD_NS, LONGEST_PERIOD_NS, SMOOTHING_OF_RARE)
        self._calm_ns = now_ns + CALM_AFTER_NS
        self._most = most
        self._thinned_period_ns = 0
        self._readings: list[Sequence[Sample]] = []
        self._kept = 0
        self._roaming = roaming
        self._phase = 0.0

    def is_due(self, now_ns: int) -> bool:
        """Whether the next reading is wanted by now."""
        return now_ns >= self.next_ns

    def period_ns(self, now_ns: int) -> int:
        """The time to the next reading, the cost of reading considered."""
        wanted_ns = PERIOD_NS if now_ns < self._calm_ns else CALM_PERIOD_NS
        return max(wanted_ns, self.pace.period_ns, self._thinned_period_ns)

    def keep(self, now_ns: int, samples: Sequence[Sample], cost_ns: int) -> None:
        """Stores one reading, thins when there are too many, and sets the time of the next."""
        self.pace.spent(cost_ns)
        if samples:
            self._readings.append(samples)
            self._kept += len(samples)
        while self._kept > self._most and len(self._readings) > 1:
            self._thinned_period_ns = 2 * self.period_ns(now_ns)
            self._readings = self._readings[::2]
            self._kept = sum(map(len, self._readings))
        phase = (self._phase + GOLDEN) % 1 if self._roaming else 0.0
        self.next_ns = now_ns + int(self.period_ns(now_ns) * (1 + phase - self._phase))
        self._phase = phase

    def samples(self) -> list[Sample]:
        """All that was kept, in order of time."""
        return [sample for reading in self._readings for sample in reading]
