"""Periodic sensors calm down, and a long run keeps a bounded, even sample."""

from __future__ import annotations

import itertools

import pytest

from bottleneck_doctor.model.instruments import Sample
from bottleneck_doctor.sense.schedule import CALM_AFTER_NS, CALM_PERIOD_NS, PERIOD_NS, Track

HOUR_NS = 3_600_000_000_000


def follow(track: Track, until_ns: int, per_reading: int = 1, cost_ns: int = 0) -> list[int]:
    """Reads whenever the track asks, in fake time; the instants of the readings."""
    times = []
    while track.next_ns < until_ns:
        now_ns = track.next_ns
        times.append(now_ns)
        track.keep(now_ns, [Sample(now_ns, "fake", {})] * per_reading, cost_ns)
    return times


def steps(times: list[int]) -> set[int]:
    """The different distances between neighbours."""
    return {later - sooner for sooner, later in itertools.pairwise(times)}


def test_it_reads_twice_a_second_and_after_two_minutes_every_other_second() -> None:
    track = Track(0)
    brisk, calm = follow(track, CALM_AFTER_NS), follow(track, 2 * CALM_AFTER_NS)
    assert steps(brisk) == {PERIOD_NS}
    assert steps(calm) == {CALM_PERIOD_NS}


def test_a_long_run_stays_bounded_and_evenly_spread() -> None:
    track = Track(0, most=200)
    follow(track, 24 * HOUR_NS, per_reading=3)
    times = sorted({sample.t_ns for sample in track.samples()})
    assert 50 < len(track.samples()) <= 200
    assert times[0] == 0
    assert times[-1] > 23 * HOUR_NS
    late = steps([t for t in times if t > HOUR_NS])
    assert max(late) <= 2 * min(late)


def test_a_dear_sensor_reads_less_often() -> None:
    assert len(follow(Track(0), CALM_AFTER_NS, cost_ns=50_000_000)) < len(follow(Track(0), CALM_AFTER_NS)) / 5


def test_an_empty_reading_is_not_kept_but_the_next_is_planned() -> None:
    track = Track(0)
    track.keep(0, [], 0)
    assert track.samples() == []
    assert not track.is_due(PERIOD_NS - 1)
    assert track.is_due(PERIOD_NS)


def test_a_roaming_track_keeps_the_pace_and_no_beat() -> None:
    """Readings fall evenly into every phase of a step that lasts just as long as their period."""
    times = follow(Track(0, roaming=True), CALM_AFTER_NS)
    assert len(times) == pytest.approx(CALM_AFTER_NS / PERIOD_NS, rel=0.02)
    assert min(steps(times)) > 0.6 * PERIOD_NS
    phases = [sum(1 for t in times if t % PERIOD_NS * 4 // PERIOD_NS == quarter) for quarter in range(4)]
    assert min(phases) > 0.2 * len(times)
