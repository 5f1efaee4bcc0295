"""Windows of stacks come early, then ever more rarely; the profiler has its turn between them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.run import Gap, Progress
from bottleneck_doctor.sense import schedule
from bottleneck_doctor.sense.schedule import (
    PROFILE_AFTER_S,
    PROFILE_STEPS,
    PROFILER_S,
    STACKS_AFTER_S,
    Windows,
    stacks_hz,
)

EARLY = int(1.1 * STACKS_AFTER_S * 1e9)
NOW = int(2 * PROFILE_AFTER_S * 1e9)
FRONT = Progress(1, PROFILE_STEPS, PROFILE_STEPS, 0, first_ns=1, last_ns=NOW)
SEEN = [Stack(1, "", "T", ["f"], 9, 4, 1)]


class Look:
    """Stands for a run of py-spy; `over` says whether it has ended."""

    cpu_s = 0.01

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
    """The looks that were begun so far, three to a window: at all, at those awake, at those in Python."""
    begun: list[Look] = []
    counts = {(True, False): 9, (False, False): 4, (False, True): 1}

    def begin(
        pids: list[int],
        seconds: float,
        rate_hz: int,
        idle: bool = True,
        gil: bool = False,
        children: bool = True,
    ) -> Look:
        begun.append(Look([Stack(1, "", "T", ["f"], counts[idle, gil])]))
        return begun[-1]

    monkeypatch.setattr(schedule, "start_window", begin)
    return begun


def watching(profiler: bool = False) -> Windows:
    return Windows(profiler=profiler, py_spy=True, ask_for_profile=lambda number: None)


def test_a_window_is_over_when_all_its_looks_are(looks: list[Look]) -> None:
    window = watching()
    window.look([FRONT], EARLY, 0)
    looks[0].over = looks[1].over = True
    window.look([FRONT], EARLY + 1, 0)
    assert window.stacks == []
    looks[2].over = True
    window.look([FRONT], EARLY + 2, 0)
    assert window.stacks == SEEN
    assert [one.instrument for one in window.windows] == ["py-spy"]
    assert len(window.gaps) == 1, "one reason is enough"
    assert window.cpu_s == pytest.approx(3 * Look.cpu_s)


def test_windows_come_ever_more_rarely_and_add_up(looks: list[Look]) -> None:
    window, begins, known = watching(), [], 0
    for tenth in range(1, 1000):
        window.look([FRONT], tenth * 100_000_000, 0)
        if len(looks) > known:
            begins.append(tenth / 10)
            known = len(looks)
            for look in looks:
                look.over = True
    assert begins[0] <= 1.0, "a run of two seconds has one"
    distances = [later - one for one, later in pairwise(begins)]
    assert distances == sorted(distances)
    assert 5 <= len(begins) <= 10
    assert window.stacks[0].count == 9 * len(window.windows)


def test_py_spy_waits_until_no_process_is_profiled_any_more(looks: list[Look]) -> None:
    asked: list[int] = []
    window = Windows(profiler=True, py_spy=True, ask_for_profile=asked.append)
    late = NOW + int(2 * PROFILER_S * 1e9)

    def look(now_ns: int, windows: int, profiled: bool) -> None:
        front = replace(FRONT, last_ns=now_ns, windows=windows)
        window.look([front, Progress(2, PROFILE_STEPS, 1, 0, 1, now_ns, 0, profiled)], now_ns, 0)

    window.look([FRONT], EARLY, 0)
    for one in looks:
        one.over = True
    look(EARLY + 1, 0, False)
    look(int(PROFILE_AFTER_S * 1.01e9), 0, False)
    assert asked == [1]
    look(late, 0, True)
    look(late, 1, True)
    assert len(looks) == 3, "one of them still is"
    look(late, 1, False)
    assert len(looks) == 6, "the next window has begun"


def test_the_end_of_the_training_closes_all(looks: list[Look]) -> None:
    window = watching()
    window.look([FRONT], EARLY, 0)
    window.close(EARLY + 1, 0)
    assert all(look.over for look in looks)
    assert window.stacks == SEEN


def test_instruments_are_over_once_each_asked_for_has_had_its_turn(looks: list[Look]) -> None:
    window = watching(profiler=True)
    assert not window.over([FRONT], EARLY)
    window.look([FRONT], EARLY, 0)
    assert (window.disturbs([FRONT]), window.over([FRONT], EARLY)) == (True, False)
    for one in looks:
        one.over = True
    window.look([FRONT], EARLY + 1, 0)
    assert (window.disturbs([FRONT]), window.over([FRONT], EARLY)) == (False, False)
    begun = int(PROFILE_AFTER_S * 1.01e9)
    window.look([FRONT], begun, 0)
    profiled = replace(FRONT, windows=1, profiled=True)
    assert (window.disturbs([profiled]), window.over([profiled], begun)) == (True, False)
    done = replace(FRONT, windows=1)
    assert (window.disturbs([done]), window.over([done], begun)) == (False, True)


def test_without_instruments_nothing_is_waited_for() -> None:
    assert Windows(profiler=False, py_spy=False, ask_for_profile=lambda number: None).over([], NOW)


@pytest.mark.parametrize(("processes", "cores", "hz"), [(1, 2, 100), (4, 2, 100), (5, 2, 30), (9, 16, 100)])
def test_several_processes_to_a_core_are_looked_at_less_often(processes: int, cores: int, hz: int) -> None:
    assert stacks_hz(processes, cores) == hz
