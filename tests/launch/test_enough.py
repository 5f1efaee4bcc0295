"""A training is watched until its step time is known, not longer; restless or slow ones have bounds."""

from __future__ import annotations

import random

import pytest

from bottleneck_doctor.launch.limits import (
    LOOSE,
    SECONDS_AT_LEAST,
    SECONDS_AT_MOST,
    SLOW_SECONDS_AT_LEAST,
    SLOW_SECONDS_AT_MOST,
    SLOW_STEPS_AT_LEAST,
    STEPS_AT_LEAST,
    STEPS_AT_MOST,
    TIGHT,
    Enough,
    half_width,
)
from bottleneck_doctor.model.run import Progress

LOOK_NS = 250_000_000
FIRST_NS = 1_000_000_000


def watched(
    step_s: float, noise: float = 0.0, epoch: int = 0, disturbed_until_s: float = 5.0, seed: int = 7
) -> tuple[Enough, int, float]:
    """A training that is looked at four times a second, until it is enough: steps and seconds by then.

    Each step's time scatters by the ``noise``, a share; instruments are at work until ``disturbed_until_s``.
    """
    draw = random.Random(seed)
    enough, t, trained, posted = Enough(), float(FIRST_NS), 0, FIRST_NS
    for look in range(1, 4000):
        now = FIRST_NS + look * LOOK_NS
        while t <= now:
            posted, trained = int(t), trained + 1
            t += step_s * 1e9 * max(0.1, draw.gauss(1.0, noise))
        begun = (trained - 1) // epoch * epoch if epoch else 0
        seconds = (now - FIRST_NS) / 1e9
        over = seconds >= disturbed_until_s
        enough.look(Progress(1, trained + 1, trained, 0, FIRST_NS, posted, epoch_at=begun), not over)
        if enough.is_enough(over):
            return enough, trained, seconds
    pytest.fail("never enough")


def test_an_even_training_is_seen_for_eight_seconds_and_some_hundred_steps() -> None:
    _, steps, seconds = watched(0.02)
    assert steps >= STEPS_AT_LEAST
    assert SECONDS_AT_LEAST <= seconds < SECONDS_AT_LEAST + 2


def test_an_uneven_one_is_seen_for_longer_until_its_mean_is_known() -> None:
    _, _, even_s = watched(0.02)
    enough, _, seconds = watched(0.02, noise=0.2, seed=1)
    assert even_s < seconds < SECONDS_AT_MOST
    width = half_width(enough._seen)
    assert width is not None
    assert width <= TIGHT


def test_where_no_time_would_make_it_tight_less_is_enough() -> None:
    enough, steps, _ = watched(0.02, noise=0.6)
    width = half_width(enough._seen)
    assert width is not None
    assert TIGHT < width <= LOOSE
    assert steps < STEPS_AT_MOST


def test_nothing_is_watched_beyond_a_thousand_steps_or_a_minute() -> None:
    _, steps, _ = watched(0.02, noise=3.0)
    assert STEPS_AT_MOST <= steps < 1.1 * STEPS_AT_MOST
    _, _, seconds = watched(0.3, noise=3.0)
    assert seconds <= SECONDS_AT_MOST + 1


def test_instruments_have_their_windows_first_but_not_for_ever() -> None:
    assert watched(0.02, disturbed_until_s=15.0)[2] > 15.0
    assert watched(0.02, disturbed_until_s=1e9)[2] <= SECONDS_AT_MOST + 1


def test_of_slow_steps_fewer_are_enough() -> None:
    _, steps, seconds = watched(0.6)
    assert SLOW_STEPS_AT_LEAST <= steps < STEPS_AT_LEAST
    assert seconds >= SLOW_SECONDS_AT_LEAST
    assert watched(20.0)[2] <= SLOW_SECONDS_AT_MOST + 25


def test_the_end_of_a_short_epoch_is_waited_for_and_a_far_one_is_not() -> None:
    enough, steps, _ = watched(0.02, epoch=110)
    end = enough.end_at()
    assert end > steps
    assert end % 110 in range(1, 6)
    assert watched(0.02, epoch=10_000)[0].end_at() == 0


def test_steps_under_an_instrument_and_of_the_warm_up_do_not_count() -> None:
    enough = Enough()
    for look in range(1, 30):
        enough.look(Progress(1, 5 * look, 5 * look, 0, FIRST_NS, FIRST_NS + look * LOOK_NS), look < 15)
    assert sum(steps for steps, _ in enough._seen) == 5 * 14
