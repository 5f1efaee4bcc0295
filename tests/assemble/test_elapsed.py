"""The life of processes: how it divides, how they start, what they exchange and call."""

from dataclasses import fields, replace
from typing import Any

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.computing import (
    EVENTS_AT_MOST,
    OPERATIONS_AT_MOST,
    read_operations,
    read_ranks,
)
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
from bottleneck_doctor.assemble.profile import read_processes, read_stacks
from bottleneck_doctor.assemble.rows import Row
from bottleneck_doctor.assemble.steps import exchanges, read_marks
from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.run import Elapsed, Process
from tests.assemble.logs import MS, PID, Script, asks, ends, loader_fact, log, opens, row, trains

NUMBERING = {(PID, 1): "100:1", (PID, 2): "100:2"}
JUST_AFTER = 1e-3  # milliseconds: the first batch is asked for after its iterator was built
DURATIONS = [one.name for one in fields(Elapsed) if one.name.endswith("_s") and one.name[:5] not in
             ("first", "last_", "exit_")]  # fmt: skip


def read(script: Script, fetchers: dict[str, LoaderWorkers] | None = None,
         facts: list[dict[str, object]] | None = None, end_ms: float = 1000.0) -> Elapsed | None:  # fmt: skip
    """What is read of the process; it began at nearly 0."""
    seen = log(script.rows, facts=[loader_fact(1), loader_fact(2), *(facts or [])])
    return read_elapsed(seen, read_iterations(seen, NUMBERING), fetchers or {}, 0, int(end_ms * MS))


def lived(script: Script, *given: Any, **more: Any) -> Elapsed:
    """The same of one that trained."""
    life = read(script, *given, **more)
    assert life is not None
    return life


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


def exit_at(t_ms: float, arrivals: int = 0) -> dict[str, object]:
    return {"fact": "exit", "at_ns": int(t_ms * MS), "arrivals": arrivals}


def test_two_epochs_with_evaluation_and_a_checkpoint_between() -> None:
    script = Script()
    t = epoch(script, 1, 100.0)
    assert t == pytest.approx(200.0, abs=0.01)
    epoch(script, 2, 220.0, loader=2, learns=False)
    script.rows.append(row(wire.OPERATION, 325.0, 15.0, 0, 0, wire.OPERATIONS.index("checkpoint"), 1))
    epoch(script, 3, 350.0)
    life = lived(script, facts=[exit_at(500.0)])
    assert (life.first_s, life.last_s, life.exit_s) == pytest.approx((0.1, 0.45, 0.5), abs=1e-5)
    assert (life.preparing_s, life.training_s, life.evaluation_s) == pytest.approx((0.1, 0.2, 0.1), abs=1e-5)
    assert (life.checkpoint_s, life.between_s) == pytest.approx((0.015, 0.035), abs=1e-5)
    assert sum(getattr(life, name) for name in DURATIONS) == pytest.approx(life.last_s, abs=1e-5)


def test_a_beginning_with_workers_is_what_it_takes_beyond_a_usual_batch() -> None:
    script = Script()
    epoch(script, 1, 100.0, build_ms=50.0, first_ms=41.0)
    epoch(script, 2, 400.0, build_ms=20.0, first_ms=41.0)
    script.rows.append(row(wire.STOPPED_WORKERS, 600.0, 8.0, thing=1))
    life = lived(script, {"100:1": LoaderWorkers(workers=1, fetch=1 * MS)})
    assert life.starting_s == pytest.approx(0.05 + 0.04 + 0.02 + 0.04, abs=1e-5)
    assert (life.first_start_s, life.stopping_s, life.beginnings) == pytest.approx((0.09, 0.008, 2), abs=1e-5)
    without = lived(script)
    assert without.starting_s == 0.0


@pytest.mark.parametrize(("arrivals", "last_ms"), [(10, 210.0), (11, 220.0)])
def test_a_pass_that_was_left_goes_on_for_as_many_steps_as_were_counted(
    arrivals: int, last_ms: float
) -> None:
    script = Script()
    epoch(script, 1, 100.0)
    script.rows = [one for one in script.rows if one.kind != wire.END]
    life = lived(script, facts=[exit_at(800.0, arrivals)])
    assert life.last_s * 1e3 == pytest.approx(last_ms, abs=11)


def test_a_loop_without_a_loader_begins_at_its_first_backward_pass() -> None:
    script = Script()
    for place in range(20):
        trains(script, 300.0 + 10 * place)
    script.rows += [row(wire.STEP, 390.5 + 10 * place, 0.0, 10 + place) for place in range(11)]
    life = lived(script, facts=[exit_at(700.0) | {"trained": 28}])
    assert (life.first_s, life.last_s) == pytest.approx((0.3, 0.5705), abs=1e-5)
    alone = lived(replace(script, rows=[one for one in script.rows if one.kind != wire.STEP]))
    assert alone.training_s == pytest.approx(0.1905, abs=1e-5)


def test_where_stretches_overlap_the_time_is_counted_once() -> None:
    stretches = [TimedSpan(0, 100, TRAINING), TimedSpan(40, 60, EVALUATION), TimedSpan(50, 55, CHECKPOINT),
                 TimedSpan(120, 130, TRAINING), TimedSpan(7, 7, EVALUATION)]  # fmt: skip
    before, between, spent = paint(stretches, 50)
    assert (before, between) == (50, 20)
    assert (spent[TRAINING], spent[EVALUATION], spent[CHECKPOINT]) == (90, 15, 5)
    assert paint([], 0)[:2] == (0, 0)


@pytest.mark.parametrize(
    ("rows", "facts", "role"),
    [
        ([row(wire.NEXT, 1)], [], "trainer"),
        ([row(wire.BACKWARD, 1)], [], "trainer"),
        ([row(wire.STEP, 1)], [], "trainer"),
        ([row(wire.FETCH, 1)], [{"fact": "worker", "worker": 3}], "worker"),
        ([row(wire.COLLECTION, 1)], [{"fact": "torch", "version": "2"}], "other"),
        ([], [], "other"),
    ],
)
def test_a_process_is_what_it_did(rows: list[Row], facts: list[dict[str, Any]], role: str) -> None:
    (process,) = read_processes([log(rows, facts=facts)], {}, 0)
    assert process.role == role


def test_trainers_come_first_and_a_worker_knows_its_loader() -> None:
    parent = log([row(wire.WORKER, 1, 0, 200, 3, thing=1), row(wire.BACKWARD, 5, 2)])
    worker = log([], pid=200, facts=[{"fact": "worker", "worker": 3}])
    found = read_processes([log([], pid=1), worker, parent], {(100, 1): "100:1"}, 10**9)
    assert [(one.pid, one.loader) for one in found] == [(100, None), (200, "100:1"), (1, None)]
    assert found[0].started_s == 0.0, "it began before the run"


def test_what_a_script_sets_after_importing_torch_counts() -> None:
    facts = [
        {"fact": "torch", "version": "2.13.0", "threads": 8},
        {"fact": "settled", "threads": 1, "device": "cpu"},
    ]
    (process,) = read_processes([log([], facts=facts)], {}, 0)
    assert (process.torch, process.torch_threads, process.device) == ("2.13.0", 1, "cpu")


MAIN, LIFE = "main (train.py:9)", "_life.<locals>._worker_loop (patch_worker.py:9)"
WORKER_LOOP, DECODE = "_worker_loop (worker.py:2)", "decode (data.py:3)"


@pytest.mark.parametrize(
    ("frames", "role", "kept"),
    [
        ([MAIN, "__iter__ (dataloader.py:1)", WORKER_LOOP, DECODE], "worker", [WORKER_LOOP, DECODE]),
        ([LIFE, WORKER_LOOP, DECODE], "worker", [WORKER_LOOP, DECODE]),  # the agent's own frame
        ([MAIN], "trainer", [MAIN]),
    ],
)
def test_a_forked_worker_forgets_its_parents_frames(frames: list[str], role: str, kept: list[str]) -> None:
    (stack,) = read_stacks([Stack(200, "", "MainThread", frames, 5)], [])
    assert (stack.role, stack.frames) == (role, kept)


@pytest.mark.parametrize(("python", "running"), [("3.9.18", None), ("3.10.13", None), ("3.11.7", 5), ("", 5)])
def test_old_interpreters_do_not_say_which_thread_sleeps(python: str, running: int | None) -> None:
    """py-spy then takes every thread of a child for awake: measured on 3.9 and 3.10."""
    processes = [Process(100, 1, "trainer", 0.0, python=python)]
    for pid in (100, 200):  # a process without the agent is taken to have the same interpreter
        (stack,) = read_stacks([Stack(pid, "", "MainThread", [MAIN], 5, 5)], processes)
        assert stack.running == running


def passes(t_ms: float, shared: bool = True, closes: bool = False) -> list[Row]:
    """A backward pass of 10 ms: 6 ms of its own, then 1 ms on the CPU, 1 ms without a core, 2 ms asleep."""
    values = (1 * MS, 1 * MS, 6 * MS)
    whole = row(wire.BACKWARD, t_ms, 10.0)
    rest = row(wire.EXCHANGE, t_ms + 6, 4.0, *values, thing=int(shared))
    step = row(wire.OPTIMIZER, t_ms - 1 if closes else t_ms + 11, 12.0 if closes else 1.0)
    return [whole, rest, step]


@pytest.mark.parametrize(("shared", "asleep"), [(True, 2), (False, 0)])
def test_what_a_thread_sleeps_in_an_exchange_is_not_backward(shared: bool, asleep: int) -> None:
    marks = read_marks(log(passes(100, shared=shared)), 0)
    assert marks.exchange.between(0, 10**12) == asleep * MS
    assert marks.backward.between(0, 10**12) == (10 - asleep) * MS


def test_a_collective_counts_once_wherever_its_own_thread_calls_it() -> None:
    inside, outside = (row(wire.COLLECTIVE, t, 1.0, 0, 0) for t in (107.0, 120.0))
    found = exchanges(log([*passes(100), inside, outside, row(wire.COLLECTIVE, 130, 1.0, thread=3)]), 0)
    assert sorted(found) == [(106 * MS, 2 * MS), (120 * MS, 1 * MS)]


def test_clocks_that_could_not_be_read_leave_the_time_as_it_is() -> None:
    rest = row(wire.EXCHANGE, 100, 4.0, wire.NOTHING, wire.NOTHING, thing=1)
    assert exchanges(log([rest]), 0) == [(100 * MS, 4 * MS)]


def test_passes_are_summed_up_by_whether_they_exchanged() -> None:
    rows = [one for place in range(4) for one in passes(100 + 20 * place, shared=place == 3)]
    rows = [one for one in rows if one.kind != wire.OPTIMIZER] + [row(wire.OPTIMIZER, 175, 1.0)]
    local, shared = read_ranks([log(rows)]).passes
    assert (local.shared, local.count, shared.shared, shared.count) == (False, 3, True, 1)
    assert shared.per_step == local.per_step == 4.0
    seconds = (shared.local_s, shared.exchange_s, shared.exchange_cpu_s)
    assert seconds == pytest.approx((0.006, 0.002, 0.001))


@pytest.mark.parametrize("closes", [False, True])
def test_passes_that_an_optimizer_calls_for_itself_are_counted(closes: bool) -> None:
    (one,) = read_ranks([log([*passes(100, closes=closes), *passes(200, closes=closes)])]).passes
    assert one.in_optimizer == (2 if closes else 0)


def test_a_wrapped_model_knows_its_buckets_by_its_newest_books() -> None:
    built = {"fact": "parallel", "kind": "ddp", "world_size": 2, "gradient_bytes": 12}
    single = {**built, "kind": "dp", "devices": 4}
    books = {"fact": "ddp_books", "model": 2, "bucket_sizes": "12", "unused_parameter_size": 0}
    rebuilt = {**books, "rebuilt_bucket_sizes": "4, 8"}
    dp, first, second = read_ranks([log([], facts=[single, built, dict(built), books, rebuilt])]).parallel
    assert (dp.kind, dp.devices, dp.bucket_bytes) == ("dp", 4, None)
    assert (first.bucket_bytes, first.unused_bytes) == (None, None)
    assert (second.bucket_bytes, second.unused_bytes) == ([4, 8], 0)


SITE = {"fact": "site", "site": 1, "kind": "logging", "file": "train.py", "line": 9, "function": "log"}
LOGGING = wire.OPERATIONS.index("logging")


def test_calls_from_one_line_are_one_operation() -> None:
    rows = [row(wire.OPERATION, t, t, 1000, 10, LOGGING, thing=1) for t in (1, 3, 2)]
    (found,) = read_operations(log(rows, facts=[SITE]), 0)
    assert (found.kind, found.name, found.count, found.bytes) == ("logging", "log", 3, 30)
    assert found.location == Location("train.py", 9, "log")
    assert (found.total_s, found.max_s) == (0.006, 0.003)
    assert [t for t, _ in found.events] == [0.001, 0.002, 0.003]


def test_only_the_heaviest_lines_and_their_longest_events_are_kept() -> None:
    rows = [row(wire.OPERATION, n, n, 0, 0, LOGGING, thing=n) for n in range(1, 2 * OPERATIONS_AT_MOST)]
    rows += [row(wire.OPERATION, n, n, 0, 0, LOGGING, thing=n) for n in [1000] * 2 * EVENTS_AT_MOST]
    found = read_operations(log(rows), 0)
    assert len(found) == OPERATIONS_AT_MOST
    assert found[0].total_s == max(one.total_s for one in found)
    assert (found[0].count, len(found[0].events)) == (2 * EVENTS_AT_MOST, EVENTS_AT_MOST)


def test_an_operation_of_a_later_version_is_left_out() -> None:
    assert read_operations(log([row(wire.OPERATION, 1, 1, 0, 0, 99)]), 0) == []
