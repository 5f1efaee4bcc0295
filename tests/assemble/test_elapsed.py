"""The life of a training process divides without overlap, whatever facts are missing."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.elapsed import (
    CHECKPOINT,
    EVALUATION,
    TRAINING,
    LoaderWorkers,
    TimedSpan,
    paint,
    read_elapsed,
)
from bottleneck_doctor.assemble.loaders import read_iterations
from bottleneck_doctor.assemble.rows import ProcessLog
from bottleneck_doctor.model.run import Elapsed
from tests.assemble.logs import MS, PID, Script, asks, ends, loader_fact, log, opens, row, trains

NUMBERING = {(PID, 1): "100:1", (PID, 2): "100:2"}
JUST_AFTER = 1e-3  # milliseconds: the first batch is asked for after its iterator was built
DURATIONS = [one.name for one in fields(Elapsed) if one.name.endswith("_s") and one.name[:5] not in
             ("first", "last_", "exit_")]  # fmt: skip


def told(script: Script, fetchers: dict[str, LoaderWorkers] | None = None,
         facts: list[dict[str, object]] | None = None, end_ms: float = 1000.0) -> Elapsed | None:  # fmt: skip
    """What is read of the process; it began at nearly 0."""
    seen = log(script.rows, facts=[loader_fact(1), loader_fact(2), *(facts or [])])
    return read_elapsed(seen, read_iterations(seen, NUMBERING), fetchers or {}, 0, int(end_ms * MS))


def epoch(script: Script, number: int, t_ms: float, steps: int = 10, loader: int = 1, build_ms: float = 0.0,
          first_ms: float = 1.0, learns: bool = True) -> float:  # fmt: skip
    """A pass of steps of 10 ms; returns when it ends."""
    opens(script, number, t_ms, loader=loader, took_ms=build_ms)
    t = t_ms + build_ms + JUST_AFTER
    for place in range(steps):
        wait = first_ms if place == 0 else 1.0
        asks(script, number, t, wait, loader=loader)
        t += wait + 9
        if learns:
            trains(script, t - 1)
    ends(script, number, t, loader=loader)
    return t


def exit_at(t_ms: float, arrivals: int = 0, steps: int = 0) -> dict[str, object]:
    return {"fact": "exit", "at_ns": int(t_ms * MS), "arrivals": arrivals, "optimizer_steps": steps}


def test_two_epochs_with_evaluation_and_a_checkpoint_between() -> None:
    script = Script()
    t = epoch(script, 1, 100.0)
    assert t == pytest.approx(200.0, abs=0.01)
    epoch(script, 2, 220.0, loader=2, learns=False)
    script.rows.append(row(wire.OPERATION, 325.0, 15.0, 0, 0, wire.OPERATIONS.index("checkpoint"), 1))
    epoch(script, 3, 350.0)
    life = told(script, facts=[exit_at(500.0)])
    assert life is not None
    assert (life.first_s, life.last_s, life.exit_s) == pytest.approx((0.1, 0.45, 0.5), abs=1e-5)
    assert (life.preparing_s, life.training_s, life.evaluation_s) == pytest.approx((0.1, 0.2, 0.1), abs=1e-5)
    assert (life.checkpoint_s, life.between_s) == pytest.approx((0.015, 0.035), abs=1e-5)
    assert sum(getattr(life, name) for name in DURATIONS) == pytest.approx(life.last_s, abs=1e-5)


def test_an_evaluation_before_training_is_no_preparation() -> None:
    script = Script()
    epoch(script, 1, 100.0, loader=2, learns=False)
    epoch(script, 2, 230.0)
    life = told(script)
    assert life is not None
    assert (life.preparing_s, life.evaluation_s, life.between_s) == pytest.approx((0.13, 0.1, 0.0), abs=1e-5)


def test_a_beginning_with_workers_is_what_it_takes_beyond_a_usual_batch() -> None:
    script = Script()
    epoch(script, 1, 100.0, build_ms=50.0, first_ms=41.0)
    epoch(script, 2, 400.0, build_ms=20.0, first_ms=41.0)
    script.rows.append(row(wire.STOPPED_WORKERS, 600.0, 8.0, thing=1))
    life = told(script, {"100:1": LoaderWorkers(workers=1, fetch=1 * MS)})
    assert life is not None
    assert life.starting_s == pytest.approx(0.05 + 0.04 + 0.02 + 0.04, abs=1e-5)
    assert (life.first_start_s, life.stopping_s, life.beginnings) == pytest.approx((0.09, 0.008, 2), abs=1e-5)
    without = told(script)
    assert without is not None
    assert without.starting_s == 0.0


def test_each_workers_first_batch_belongs_to_the_start() -> None:
    script = Script()
    opens(script, 1, 100.0)
    t = 100.0 + JUST_AFTER
    for wait in (31.0, 31.0, 1.0, 1.0, 1.0, 1.0):
        asks(script, 1, t, wait)
        t += wait + 9
        trains(script, t - 1)
    ends(script, 1, t)
    life = told(script, {"100:1": LoaderWorkers(workers=2, fetch=1 * MS)})
    assert life is not None
    assert life.starting_s == pytest.approx(0.06, abs=2e-3)


@pytest.mark.parametrize(("arrivals", "last_ms"), [(10, 210.0), (11, 220.0)])
def test_a_pass_that_was_left_goes_on_for_as_many_steps_as_were_counted(
    arrivals: int, last_ms: float
) -> None:
    script = Script()
    epoch(script, 1, 100.0)
    script.rows = [one for one in script.rows if one.kind != wire.END]
    life = told(script, facts=[exit_at(800.0, arrivals)])
    assert life is not None
    assert life.last_s * 1e3 == pytest.approx(last_ms, abs=11)


def test_a_process_that_was_killed_tells_no_exit_and_ends_with_the_run() -> None:
    script = Script()
    epoch(script, 1, 100.0)
    script.rows = [one for one in script.rows if one.kind != wire.END]
    life = told(script, end_ms=196.0)
    assert life is not None
    assert life.exit_s is None
    assert life.last_s <= 0.196


def test_a_loop_without_a_loader_begins_at_its_first_backward_pass() -> None:
    script = Script()
    for place in range(20):
        trains(script, 300.0 + 10 * place)
    script.rows += [row(wire.STEP, 390.5 + 10 * place, 0.0, 10 + place) for place in range(11)]
    life = told(script, facts=[exit_at(700.0) | {"trained": 28}])
    assert life is not None
    assert (life.first_s, life.last_s) == pytest.approx((0.3, 0.5705), abs=1e-5)
    alone = told(replace(script, rows=[one for one in script.rows if one.kind != wire.STEP]))
    assert alone is not None
    assert alone.training_s == pytest.approx(0.1905, abs=1e-5)


def test_where_nothing_was_trained_nothing_is_said() -> None:
    assert told(Script()) is None
    assert read_elapsed(ProcessLog(1, 0, 1, []), [], {}, 0, 10) is None


def test_where_stretches_overlap_the_time_is_counted_once() -> None:
    stretches = [TimedSpan(0, 100, TRAINING), TimedSpan(40, 60, EVALUATION), TimedSpan(50, 55, CHECKPOINT),
                 TimedSpan(120, 130, TRAINING), TimedSpan(7, 7, EVALUATION)]  # fmt: skip
    before, between, spent = paint(stretches, 0)
    assert (before, between) == (0, 20)
    assert (spent[TRAINING], spent[EVALUATION], spent[CHECKPOINT]) == (90, 15, 5)
    assert paint([], 0)[:2] == (0, 0)


def test_passes_that_were_left_have_the_steps_that_they_have_room_for() -> None:
    script = Script()
    for number, begin, looks in ((1, 100.0, (1, 11, 21)), (2, 320.0, (1, 11))):
        opens(script, number, begin)
        for place, look in enumerate(looks):
            t = begin + JUST_AFTER + 10 * (look - 1)
            asks(script, number, t, 1.0, skipped=9 if place else 0)
            trains(script, t + 5, steps=1 if not place else 10)
    opens(script, 3, 520.0)
    asks(script, 3, 520.0 + JUST_AFTER)
    trains(script, 525.0)
    life = told(script, facts=[exit_at(530.0, 22 + 20 + 1)])
    assert life is not None
    assert life.between_s < 0.05 * (life.last_s - life.first_s)
