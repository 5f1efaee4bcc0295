"""The supervisor's side of a run: what it still begins."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from bottleneck_doctor.commands.options import MAX_SECONDS
from bottleneck_doctor.commands.run_options import Form, Options
from bottleneck_doctor.commands.session import Session
from bottleneck_doctor.launch.board import Enough, Limit
from bottleneck_doctor.model.run import Progress

S = 1_000_000_000
FAR = Progress(pid=1, steps=9001, trained=9000, wait_ns=3 * S, first_ns=1 * S, last_ns=10 * S)


class Windows:
    """Notes how far it was told that the training is."""

    def __init__(self) -> None:
        self.told: list[list[Progress]] = []

    def look(self, progress: list[Progress], now_ns: int, origin_ns: int, processes: int) -> None:
        self.told.append(progress)

    def disturbs(self, progress: list[Progress]) -> bool:
        return False

    def over(self, progress: list[Progress], now_ns: int) -> bool:
        return True


@pytest.fixture
def session(folder: Path) -> Session:
    made = Session(Options(Form("train.py"), {MAX_SECONDS: 5.0}), folder)
    made.prepare()
    assert made.board is not None
    made.board.progress = lambda: [FAR]  # type: ignore[method-assign]
    made.windows = Windows()
    return made


@pytest.mark.parametrize(("at_s", "told"), [(5, [FAR]), (7, [])])
def test_once_the_limit_is_reached_no_window_is_begun(
    at_s: int, told: list[Progress], session: Session
) -> None:
    """A window that runs is told too, so that it can end."""
    session._look(1, at_s * S)
    assert isinstance(session.limit, Limit)
    assert (session.limit.due is None) is bool(told)
    assert session.windows.told == [told]


def test_a_training_whose_step_time_is_known_is_asked_to_end_where_that_was_wished(session: Session) -> None:
    assert session.board is not None
    assert session.limit is not None
    session.limit.max_seconds = None
    for wished in (False, True):
        session.enough = Enough() if wished else None
        for look in range(1, 50):  # 25 even steps in each quarter of a second
            front = replace(FAR, trained=25 * look, steps=25 * look, last_ns=FAR.first_ns + look * S // 4)
            session.board.progress = partial(list, [front])  # type: ignore[method-assign]
            session._look(1, front.last_ns)
        assert session.limit.due == ("until-steady" if wished else None)
