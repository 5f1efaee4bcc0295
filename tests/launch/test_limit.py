"""A training seen long enough is asked to end, then told to; it is not mistaken for a failed one."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, replace

import pytest

from bottleneck_doctor.launch import limits as limits
from bottleneck_doctor.launch.agent_counters import Board
from bottleneck_doctor.launch.limits import LAST_WORK_S, MARGIN_S, MARGIN_STEPS, SWALLOWED_S, Limit
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


def test_a_number_of_steps_is_ordered_before_the_start() -> None:
    board = Orders()
    Limit(board, 40, None).arm()
    assert board.given == [40]


def test_without_a_limit_nothing_is_ordered(sent: list[tuple[int, int]]) -> None:
    board = Orders()
    limit = Limit(board, None, None)
    limit.arm()
    look(limit, 1_000_000, 1e6)
    assert (board.given, sent, limit.stopped()) == ([], [], None)


def test_seconds_count_from_the_first_batch() -> None:
    board = Orders()
    limit = Limit(board, None, 5.0)
    limit.arm()
    limit.look(PID, [], 10_000 * S)
    look(limit, 49, 4.9)
    assert (board.given, limit.due) == ([], None)
    look(limit, 50, 5.0)
    assert limit.due == "max-seconds"
    assert len(board.given) == 1


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
    limit = Limit(board, None, 5.0)
    look(limit, trained, 5.0)
    assert board.given == [trained + ahead]


def test_of_two_limits_the_nearer_one_ends_the_training() -> None:
    board = Orders()
    limit = Limit(board, 52, 5.0)
    limit.arm()
    look(limit, 50, 5.0)
    assert max(board.given) == 52


def test_an_order_is_given_once() -> None:
    board = Orders()
    limit = Limit(board, None, 5.0)
    for seconds in (5.0, 6.0, 7.0):
        look(limit, int(seconds * 10), seconds)
    assert len(board.given) == 1


def test_a_training_that_heard_the_order_was_stopped_by_the_limit() -> None:
    board = Orders()
    limit = Limit(board, 40, None)
    limit.arm()
    assert limit.stopped() is None
    board.heard = True
    assert limit.stopped() == "max-steps"


def test_a_training_that_ended_by_itself_was_not() -> None:
    limit = Limit(Orders(), None, 5.0)
    look(limit, 50, 5.0)
    assert limit.stopped() is None


def test_a_script_that_trains_on_is_interrupted_then_terminated_and_then_left(
    sent: list[tuple[int, int]],
) -> None:
    limit = Limit(Orders(), 40, None)
    limit.arm()
    for second in range(5, 200):
        look(limit, 40 + second, float(second))
    assert sent == [(PID, signal.SIGINT), (PID, signal.SIGTERM)]
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


def test_a_last_checkpoint_is_given_more_time(sent: list[tuple[int, int]]) -> None:
    limit = Limit(Orders(), 40, None)
    limit.arm()
    look(limit, 40, 5.0)
    look(limit, 40, 5.0 + LAST_WORK_S)
    assert sent == []
    look(limit, 40, 5.1 + LAST_WORK_S)
    assert sent == [(PID, signal.SIGINT)]


def test_a_loop_that_only_reads_is_measured_by_its_batches(sent: list[tuple[int, int]]) -> None:
    board = Orders()
    limit = Limit(board, None, 5.0)
    look(limit, 0, 5.0, steps=50)
    assert board.given == [50 + MARGIN_S * 10]
    look(limit, 0, 7.0 + SWALLOWED_S, steps=900)
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


def test_whoever_knows_enough_ends_it_as_soon_as_all_ranks_can_hear_or_later() -> None:
    board = Orders()
    limit = Limit(board, 1000, None)
    limit.end("until-steady", at(300, 6.0)[0], int(16 * S))
    limit.end("until-steady", at(300, 6.0)[0], int(16 * S), at=402)
    limit.end("until-steady", at(300, 6.0)[0], int(16 * S), at=4020)
    assert board.given == [300 + round(MARGIN_S * 50), 402, 1000]
    assert limit.due == "until-steady"
