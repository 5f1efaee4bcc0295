"""Limits end a training cleanly; so does a step time that is known well enough."""

import random
import signal
from dataclasses import dataclass, field, replace

import pytest

from bottleneck_doctor.launch import board as limits
from bottleneck_doctor.launch.board import (
    LAST_WORK_S,
    LOOSE,
    MARGIN_S,
    MARGIN_STEPS,
    SECONDS_AT_LEAST,
    SECONDS_AT_MOST,
    STEPS_AT_LEAST,
    STEPS_AT_MOST,
    SWALLOWED_S,
    TIGHT,
    Board,
    Enough,
    Limit,
    half_width,
)
from bottleneck_doctor.model.run import Progress

S = 1_000_000_000
PID = 4711


@dataclass
class Orders(Board):
    """A board that remembers what was ordered."""

    given: list[int] = field(default_factory=list)
    heard: bool = False

    def stop_at(self, trained: int) -> None:
        self.given.append(trained)

    def stopped(self) -> bool:
        return self.heard


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Signals that would have been sent."""
    signals: list[tuple[int, int]] = []
    monkeypatch.setattr(limits, "nudge", lambda pid, number: signals.append((pid, number)))
    return signals


def at(trained: int, seconds: float, steps: int | None = None) -> list[Progress]:
    """One process, that many steps after the first batch, which came at second 10."""
    last = int((10 + seconds) * S)
    return [Progress(PID, trained + 1 if steps is None else steps, trained, 0, 10 * S, last)]


def look(limit: Limit, trained: int, seconds: float, steps: int | None = None) -> None:
    limit.look(PID, at(trained, seconds, steps), int((10 + seconds) * S))


def test_seconds_count_from_the_first_batch() -> None:
    board = Orders()
    limit = Limit(board, None, 5.0)
    limit.arm()
    limit.look(PID, [], 10_000 * S)
    look(limit, 49, 4.9)
    assert (board.given, limit.due) == ([], None)
    look(limit, 50, 5.0)
    for step in range(50, 53):
        look(limit, step, step / 10)
    assert limit.due == "max-seconds"
    assert len(board.given) == 1
    assert limit.stopped() is None, "it may end by itself before it reads the order"


def test_seconds_end_no_rank_whose_partners_another_run_watches() -> None:
    board = Orders()
    limit = Limit(board, None, 5.0)
    [one] = at(100, 10.0)
    limit.look(PID, [replace(one, elsewhere=1)], 20 * S)
    assert (board.given, limit.due, limit.refused) == ([], None, True)
    limit.look(PID, [one], 20 * S)  # the other one has begun here, too
    assert (len(board.given), limit.due) == (1, "max-seconds")


@pytest.mark.parametrize(("trained", "ahead"), [(5000, MARGIN_S * 1000), (5, MARGIN_STEPS)])
def test_the_order_is_ahead_of_every_rank_in_time_and_in_steps(trained: int, ahead: float) -> None:
    board = Orders()
    look(Limit(board, None, 5.0), trained, 5.0)
    assert board.given == [trained + ahead]


def test_a_training_that_heard_the_order_was_stopped_by_the_limit() -> None:
    board = Orders()
    limit = Limit(board, 40, None)
    limit.arm()
    assert board.given == [40]
    assert limit.stopped() is None
    board.heard = True
    assert limit.stopped() == "max-steps"


def test_patience_is_counted_from_the_order(sent: list[tuple[int, int]]) -> None:
    limit = Limit(Orders(), 40, None)
    limit.arm()
    look(limit, 40, 5.0)
    look(limit, 99, 5.0 + SWALLOWED_S)
    assert sent == []
    look(limit, 99, 5.1 + SWALLOWED_S)
    assert sent == [(PID, signal.SIGINT)]
    look(limit, 99, 5.2 + SWALLOWED_S)
    assert len(sent) == 1
    for second in range(30, 200):
        look(limit, 99 + second, float(second))
    assert sent == [(PID, signal.SIGINT), (PID, signal.SIGTERM)], "and then it is left"
    assert limit.stopped() == "max-steps"


def test_a_last_checkpoint_is_given_more_time(sent: list[tuple[int, int]]) -> None:
    limit = Limit(Orders(), 40, None)
    limit.arm()
    look(limit, 40, 5.0)
    look(limit, 40, 5.0 + LAST_WORK_S)
    assert sent == []
    look(limit, 40, 5.1 + LAST_WORK_S)
    assert sent == [(PID, signal.SIGINT)]


@pytest.mark.parametrize(
    ("signals", "status", "excused"),
    [
        ([], 130, False),  # the user's own Ctrl-C
        ([signal.SIGINT], 130, True),
        ([signal.SIGINT], 143, False),
        ([signal.SIGINT, signal.SIGTERM], 143, True),
        ([signal.SIGINT], 1, False),  # it failed on its way out
        ([signal.SIGINT], 0, False),
    ],
)
def test_only_a_death_by_our_signal_is_excused(signals: list[int], status: int, excused: bool) -> None:
    assert Limit(Orders(), 40, None, sent=signals).excuses(status) is excused


def test_a_training_known_well_enough_ends_as_soon_as_all_ranks_can_hear_or_later() -> None:
    board = Orders()
    limit = Limit(board, 1000, None)
    limit.end("until-steady", at(300, 6.0)[0], int(16 * S))
    limit.end("until-steady", at(300, 6.0)[0], int(16 * S), at=402)
    limit.end("until-steady", at(300, 6.0)[0], int(16 * S), at=4020)
    assert board.given == [300 + round(MARGIN_S * 50), 402, 1000]
    assert limit.due == "until-steady"


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


def test_instruments_have_their_windows_first_but_not_for_ever() -> None:
    assert watched(0.02, disturbed_until_s=15.0)[2] > 15.0
    assert watched(0.02, disturbed_until_s=1e9)[2] <= SECONDS_AT_MOST + 1


def test_the_end_of_a_short_epoch_is_waited_for_and_a_far_one_is_not() -> None:
    enough, steps, _ = watched(0.02, epoch=110)
    end = enough.end_at()
    assert end > steps
    assert end % 110 in range(1, 6)
    assert watched(0.02, epoch=10_000)[0].end_at() == 0
