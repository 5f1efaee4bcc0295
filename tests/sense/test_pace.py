"""A sensor reads as often as its cost allows, and no oftener than is useful."""

from __future__ import annotations

from bottleneck_doctor.sense.schedule import MOST_CORE_SHARE, AdaptivePeriod


def test_a_cheap_sensor_reads_at_its_shortest_period() -> None:
    pace = AdaptivePeriod(20_000_000, 1_000_000_000)
    for _ in range(100):
        pace.spent(50_000)
    assert pace.period_ns == 20_000_000


def test_a_dear_sensor_keeps_to_its_share_of_a_core() -> None:
    pace = AdaptivePeriod(20_000_000, 1_000_000_000)
    for _ in range(1000):
        pace.spent(2_000_000)
    assert 0.9 * MOST_CORE_SHARE < 2_000_000 / pace.period_ns < 1.1 * MOST_CORE_SHARE


def test_one_dear_reading_does_not_starve_the_next() -> None:
    pace = AdaptivePeriod(20_000_000, 1_000_000_000)
    pace.spent(5_000_000)
    assert pace.period_ns <= 2 * 20_000_000


def test_even_the_dearest_sensor_reads_at_its_longest_period() -> None:
    pace = AdaptivePeriod(20_000_000, 1_000_000_000, smoothing=1.0)
    pace.spent(10_000_000_000)
    assert pace.period_ns == 1_000_000_000
