"""Two looks of py-spy open and close together; what they saw becomes one list of stacks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.model.profile import Gap, Stack
from bottleneck_doctor.model.progress import Progress
from bottleneck_doctor.sense import windows
from bottleneck_doctor.sense.windows import PROFILER_S, WARMUP_S, WARMUP_STEPS, Windows

NOW = int(2 * WARMUP_S * 1e9)


class Look:
    """Stands for a window of py-spy that is over when it is told so."""

    def __init__(self, stacks: list[Stack]) -> None:
        self.stacks, self.over, self.gaps = stacks, False, [Gap("stacks", "a reason")]

    @property
    def by_target(self) -> dict[int, list[Stack]]:
        return {1: self.stacks}

    def poll(self) -> list[Stack] | None:
        return self.stacks if self.over else None

    def close(self) -> None:
        self.over = True


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Look]:
    """The two looks, in the order in which they are begun."""
    seen = [Look([Stack(1, "", "T", ["f"], 9)]), Look([Stack(1, "", "T", ["f"], 4)])]
    waiting = list(seen)

    def begin(pids: list[int], seconds: float, rate_hz: int, idle: bool = True) -> Look:
        assert idle == (len(waiting) == 2), "the first look keeps threads that sleep, the second does not"
        return waiting.pop(0)

    monkeypatch.setattr(windows, "start_window", begin)
    return seen


def begun() -> Windows:
    one = Windows(profiler=False, py_spy=True, ask_for_profile=lambda number: None)
    one.look([Progress(1, WARMUP_STEPS, WARMUP_STEPS, 0, first_ns=1, last_ns=NOW)], NOW, 0)
    return one


def test_a_window_is_over_when_both_looks_are(looks: list[Look]) -> None:
    window = begun()
    looks[0].over = True
    window.look([], NOW + 1, 0)
    assert window.stacks == []
    looks[1].over = True
    window.look([], NOW + 2, 0)
    assert window.stacks == [Stack(1, "", "T", ["f"], 9, 4)]
    assert [one.instrument for one in window.windows] == ["py-spy"]
    assert len(window.gaps) == 1, "one reason is enough"


def test_py_spy_waits_until_no_process_is_profiled_any_more(looks: list[Look]) -> None:
    asked: list[int] = []
    window = Windows(profiler=True, py_spy=True, ask_for_profile=asked.append)
    late = NOW + int(2 * PROFILER_S * 1e9)

    def look(now_ns: int, windows: int, profiled: bool) -> None:
        front = Progress(1, WARMUP_STEPS, WARMUP_STEPS, 0, 1, now_ns, windows)
        other = Progress(2, WARMUP_STEPS, WARMUP_STEPS, 0, 1, now_ns, 0, profiled)
        window.look([front, other], now_ns, 0)

    look(NOW, 0, False)
    assert asked == [1]
    look(late, 0, True)
    look(late, 1, True)
    assert window.py_spy, "one of them still is"
    look(late, 1, False)
    assert not window.py_spy, "its windows have begun"


def test_the_end_of_the_training_closes_both(looks: list[Look]) -> None:
    window = begun()
    window.close(NOW + 1, 0)
    assert all(look.over for look in looks)
    assert window.stacks == [Stack(1, "", "T", ["f"], 9, 4)]


def test_instruments_are_over_once_each_asked_for_has_had_its_turn(looks: list[Look]) -> None:
    front = Progress(1, WARMUP_STEPS, WARMUP_STEPS, 0, first_ns=1, last_ns=NOW)
    window = Windows(profiler=True, py_spy=True, ask_for_profile=lambda number: None)
    assert not window.over([front], NOW)
    window.look([front], NOW, 0)
    profiled = replace(front, windows=1, profiled=True)
    assert (window.disturbs([profiled]), window.over([profiled], NOW)) == (True, False)
    done = replace(front, windows=1)
    window.look([done], NOW + 1, 0)
    assert (window.disturbs([done]), window.over([done], NOW)) == (True, False)
    looks[0].over = looks[1].over = True
    window.look([done], NOW + 2, 0)
    assert (window.disturbs([done]), window.over([done], NOW)) == (False, True)


def test_without_instruments_nothing_is_waited_for() -> None:
    assert Windows(profiler=False, py_spy=False, ask_for_profile=lambda number: None).over([], NOW)
