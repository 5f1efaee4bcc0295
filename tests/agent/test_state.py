"""The pulse: how often the agent looks closely, and that a long run stays small."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from bottleneck_doctor.agent import loader, profiler, training, wire
from bottleneck_doctor.agent.state import FIRST_LOOKS, STRIDE_AT_MOST, AgentState, IteratorCounts, state
from bottleneck_doctor.assemble.rows import ProcessLog, read_logs

MILLION = 1_000_000


@pytest.fixture
def pulse(tmp_path: Path) -> AgentState:
    one = AgentState()
    one.begin(str(tmp_path))
    return one


def looks(pulse: AgentState, count: int, step_ns: int, cost_ns: int) -> None:
    """Close looks as a loop would report them, each ``stride`` steps after the last."""
    at = 10**9
    for _ in range(count):
        at += step_ns * pulse.stride
        pulse.looked(cost_ns, at, pulse.stride)


def test_the_step_before_the_last_of_an_ordered_end_is_looked_at(pulse: AgentState) -> None:
    assert pulse.not_beyond(40) == 40, "no end is ordered"
    pulse.stop_at, pulse.trained = 100, 70
    assert pulse.not_beyond(40) == 28
    assert pulse.not_beyond(5) == 5
    pulse.trained = 99
    assert pulse.not_beyond(40) == 0


@pytest.mark.parametrize("step_ns", [100_000, 1_000_000, 30_000_000])
def test_close_looks_take_at_most_half_a_percent_of_the_steps_and_later_half_of_that(
    pulse: AgentState, step_ns: int
) -> None:
    for share in (0.005, 0.0025):
        looks(pulse, FIRST_LOOKS, step_ns, cost_ns=12_000)
        assert 12_000 / (pulse.stride * step_ns) <= share
        least = 12_000 / max(1, pulse.stride - 1) / step_ns
        assert pulse.stride == 1 or least > 0.8 * share, "it looks as often as it may"


def test_a_slower_loop_is_looked_at_more_often_again(pulse: AgentState) -> None:
    looks(pulse, 200, 20_000, cost_ns=12_000)
    assert pulse.stride > 100
    looks(pulse, 3, 2 * 10**9, cost_ns=12_000)
    assert pulse.stride == 1


def test_a_chunk_that_fills_up_doubles_the_stride_for_good(pulse: AgentState) -> None:
    rows = wire.CHUNK_BYTES // wire.ROW.size
    for _ in range(2 * rows + 1):
        pulse.row(wire.BACKWARD, 1, 1)
    assert pulse.floor == pulse.stride == 4
    looks(pulse, 200, 10**9, cost_ns=1)
    assert pulse.stride == 4, "cheap looks do not lower it again"
    for _ in range(20):
        pulse.halve()
    assert pulse.stride == STRIDE_AT_MOST


def test_every_remainder_is_caught_of_a_loop_that_does_something_every_fourth_step(pulse: AgentState) -> None:
    pulse.stride, place, caught = 4, 0, set()
    for _ in range(32):
        caught.add(place % 4)
        pulse.looks += 1
        place += pulse.skip(place) + 1
    assert caught == {0, 1, 2, 3}


def test_ranks_of_different_pace_look_at_the_same_steps(pulse: AgentState) -> None:
    pulse.ranked = True
    seen = []
    for stride in (3, 7):
        pulse.stride, place, looked = stride, 0, set()
        while place < 2000:
            place += pulse.skip(place) + 1
            looked.add(place)
        seen.append({one for one in looked if one < 1900})
    often, seldom = seen
    assert seldom < often, "what one rank sees, the other has seen, too"
    assert 180 < len(seldom) < 300, "one in eight"
    assert {one % 4 for one in seldom} == {0, 1, 2, 3}, "at no beat of the training's own"


def test_the_main_thread_is_number_0_and_keeps_it(pulse: AgentState) -> None:
    assert [pulse.thread(), pulse.thread()] == [0, 0]


def test_a_place_in_the_users_code_is_written_down_once(pulse: AgentState, tmp_path: Path) -> None:
    frame = SimpleNamespace(
        f_code=SimpleNamespace(co_filename="/home/me/train.py", co_name="main"), f_lineno=7, f_back=None
    )
    assert [pulse.site("logging", frame), pulse.site("logging", frame)] == [1, 1]  # type: ignore[arg-type]
    assert pulse.site("checkpoint", frame) == 2  # type: ignore[arg-type]
    (log,) = read_logs(tmp_path)
    assert [(fact["kind"], fact["file"], fact["line"]) for fact in log.facts] == [
        ("logging", "/home/me/train.py", 7),
        ("checkpoint", "/home/me/train.py", 7),
    ]


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ProcessLog]:
    """A million training steps of 10 ms by a clock of our own: nothing is skipped for being fast."""
    folder = tmp_path_factory.mktemp("long")
    state.begin(str(folder))
    clock = itertools.count(10**9, 5_000_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loader, "now", clock.__next__)
        patch.setattr(training, "now", clock.__next__)
        _train(MILLION)
    (log,) = read_logs(folder)
    return next(folder.glob("*.rows")), log


def _train(steps: int) -> None:
    """The hooks as a training calls them, around a loader and a model that do nothing."""
    following = loader._arrival(lambda iterator: None)
    backward = training._run_backward(lambda outputs: None)
    iterator = SimpleNamespace(_bdoc=IteratorCounts(1, 1, 0))
    for _ in range(steps):
        following(iterator)
        backward(())
        training._before(None, (), {})
        training._after(None, (), {})


def test_a_million_steps_stay_under_8_mib(long_run: tuple[Path, ProcessLog]) -> None:
    file, log = long_run
    assert os.stat(file).st_blocks * 512 <= 8 << 20
    assert log.board["dropped"] == 0, "the stride grew before the file was full"


def test_a_million_steps_are_all_counted(long_run: tuple[Path, ProcessLog]) -> None:
    _, log = long_run
    last = log.of(wire.NEXT)[-1]
    assert MILLION - last.arrivals <= 2 * STRIDE_AT_MOST
    assert log.board["trained"] == pytest.approx(last.arrivals, abs=2)
    assert last.backwards == pytest.approx(last.arrivals, abs=2)
    assert last.optimizer_steps == pytest.approx(last.arrivals, abs=2)
    assert len(log.of(wire.NEXT)) > 512, "and looked at from end to end"


def test_a_profilers_window_sets_no_pace(pulse: AgentState, monkeypatch: pytest.MonkeyPatch) -> None:
    looks(pulse, 100, MILLION, cost_ns=10_000)
    before = pulse.stride
    monkeypatch.setattr(profiler, "state", pulse)
    profiler._sets_no_pace(3 * 10**9)
    looks(pulse, 1, MILLION, cost_ns=3 * 10**9 + 10_000)
    looks(pulse, 40, MILLION, cost_ns=10_000)
    assert pulse.stride == before
    assert pulse.cost_ns > 3 * 10**9
