"""A loop without a loader: which part of its steps gets the batch, and how it reads as if it had a loader."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.loop_without_loader import InputGap, judge_gap, with_waits
from bottleneck_doctor.analyse.steady import choose_loop, steps_of
from bottleneck_doctor.analyse.step_costs import Beside, cost_of
from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.instruments import Operation, Stack
from bottleneck_doctor.model.loops import Feed, Loop, LoopBody
from bottleneck_doctor.model.profile import Profile
from tests.analyse.runs import own_loop, run_of
from tests.analyse.test_loop_parts import profile, stack

BODY = LoopBody(
    "/home/ann/train.py",
    "main",
    40,
    50,
    [Feed(40, 40), Feed(42, 42, [0, 2]), Feed(43, 43), Feed(44, 44, [1])],
)
QUEUE, THREADING = "/usr/lib/python3.11/queue.py:171", "/usr/lib/python3.11/threading.py:327"
# Steps of 10 ms: a gap of 6 with 2 on the CPU and 4 without a core; beside it 1 on the CPU and 3 without.
BUSY = own_loop(
    100, BODY, wall_s=0.010, gap_s=0.006, gap_cpu_s=0.002, gap_runq_s=0.004, cpu_s=0.003, runq_s=0.007
)

SHORT = own_loop(100, BODY, wall_s=0.010, gap_s=0.0006)


def with_columns(loop: Loop, **columns: list[float | None]) -> Loop:
    return replace(loop, table=replace(loop.table, **columns))  # type: ignore[arg-type]


def judged(loop: Loop, *lines: tuple[int, str, int]) -> InputGap:
    return judge_gap(profile(*[stack(*one) for one in lines]), loop)


def test_without_samples_all_of_the_gap_is_taken_and_nothing_of_it_is_sure() -> None:
    assert judged(BUSY) == InputGap(1.0, 0.0, pytest.approx(0.6))


def test_samples_say_how_much_of_the_gap_gets_the_batch_and_where() -> None:
    found = judged(BUSY, (40, "batch", 75), (47, "act", 25), (42, "model", 50), (44, "backward", 50))
    assert (found.share, found.beside) == (0.75, 0.0)
    assert found.low < 0.45 < found.high
    assert found.location is not None
    assert (found.location.function, found.location.line) == ("get_batch", 9)


def test_of_ranks_code_before_the_model_is_no_wait_for_data() -> None:
    """The second rank computes for 25 ms before its model; the first one sleeps in exchanges meanwhile."""
    swift = own_loop(100, BODY, wall_s=0.03, gap_s=0.001, exchange_s=0.024)
    slow = replace(own_loop(100, BODY, wall_s=0.03, gap_s=0.026, exchange_s=0.001), pid=2)
    looks = [(40, "batch", 1), (47, "act", 50), (42, "model", 5), (44, "backward", 5)]
    stacks = [replace(stack(*one), pid=pid) for one in looks for pid in (1, 2)]
    run = replace(profile(*stacks), loops=[], outside=[swift, slow])
    assert choose_loop(run) == swift


def test_a_line_that_zeroes_gradients_is_no_part_of_the_gap() -> None:
    """Its time is taken out of the gap; our hook's frames are not kept, so some samples end at the line."""
    gap, rest = (
        [(40, "batch", 75), (47, "zero_grad", 5), (47, "itself", 9)],
        [(42, "model", 50), (44, "backward", 50)],
    )
    assert judged(BUSY, *gap, *rest).share == 1.0


def test_where_hooks_time_what_a_function_does_it_is_no_part_of_the_gap() -> None:
    """act() saves, in a line that a hook knows; what else it does stays in the gap."""
    run = profile(stack(40, "batch", 75), stack(47, "act", 25), stack(42, "model", 50), stack(44, "backward"))
    assert judge_gap(run, BUSY).share == 0.75
    saved = Operation("checkpoint", 1, 0, "act", 9, 0.1, 0.1, 0.1, Location("/home/ann/train.py", 14, "act"))
    assert judge_gap(replace(run, operations=[saved]), BUSY).share == 1.0
    other = replace(saved, location=Location("/home/ann/train.py", 15, "act"))
    assert judge_gap(replace(run, operations=[other]), BUSY).share == 0.75


def test_a_batch_got_between_model_and_backward_lies_beside_the_gap() -> None:
    found = judged(BUSY, (47, "act", 60), (42, "model", 40), (43, "batch", 20), (44, "backward", 40))
    assert (found.share, found.beside) == (0.0, pytest.approx(0.2))
    assert found.low < 0.2 * 0.4 < found.high


def test_code_before_the_model_in_a_line_that_trains_is_part_of_the_gap() -> None:
    """Line 44 gathers features, calls the model and trains; the gap is 60 %, 50 samples saw the batch."""
    found = judged(BUSY, (40, "batch", 50), (44, "act", 20), (44, "model", 10), (44, "backward", 20))
    assert (found.share, found.beside) == (pytest.approx(50 / 60), 0.0)


def test_a_line_that_was_never_seen_getting_a_batch_gets_it_quickly() -> None:
    """Four samples of the gap are a measure; none of a hundred gets the batch."""
    told = judged(SHORT, (47, "act", 4), (42, "model", 50), (44, "backward", 50))
    assert told.share * 0.06 == pytest.approx(0.5 / 105)


def test_of_few_samples_that_all_get_the_batch_the_clock_is_believed() -> None:
    """Waiting for Python's lock behind the batch is seldom met by a sample, and always by the clock."""
    told = judged(SHORT, (40, "batch", 3), (42, "model", 50), (44, "backward", 50))
    assert told.share == pytest.approx(3.5 / 4)


def test_between_backward_pass_and_optimizer_no_batch_is_got() -> None:
    """Clipping gradients lies before the gap, though the optimizer itself takes little."""
    step = ((42, "model", 70), (44, "backward", 96), (46, "act", 15), (47, "step", 7))
    timed = with_columns(BUSY, optimizer_s=[0.001] * 100)
    assert judged(timed, (40, "batch", 8), *step).share == 1.0


def test_a_batch_got_behind_an_accuracy_is_not_in_the_gap_however_short_it_takes() -> None:
    found = judged(SHORT, (40, "batch", 6), (44, "backward", 40), (46, "model", 20), (47, "act", 34))
    assert (found.share, found.beside) == (0.06, 0.06)


def test_what_passes_between_model_and_backward_is_timed() -> None:
    """The next batch is got there, in a quarter of the rest of the step; few samples only say so."""
    body = LoopBody(
        "/home/ann/train.py", "main", 40, 50, [Feed(43, 43), Feed(42, 42, [0]), Feed(44, 44, [1])]
    )
    timed = own_loop(100, body, wall_s=0.010, gap_s=0.002, late_s=0.002)
    told = judged(timed, (42, "model", 30), (43, "batch", 3), (44, "backward", 40))
    assert (told.share, told.beside) == (0.0, pytest.approx(0.25))


def test_where_no_module_is_called_the_samples_alone_tell() -> None:
    found = judged(own_loop(100, BODY, wall_s=0.010, gap_s=None), (40, "batch", 60), (44, "backward", 40))
    assert (found.beside, found.busy) == (0.6, None)
    assert 0.0 < found.low < 0.6 < found.high < 1.0


def test_where_the_samples_alone_tell_they_also_tell_who_sleeps() -> None:
    """The batch is got by reads that sleep for most of their time; the model computes."""
    reads = replace(stack(40, "batch", 60), running=10)
    computes = replace(stack(44, "backward", 40), running=40)
    found = judge_gap(profile(reads, computes), own_loop(100, BODY, wall_s=0.010, gap_s=None))
    assert (found.share, found.busy) == (0.6, 0.2)


def test_a_batch_got_behind_a_measure_that_calls_the_model_is_not_in_the_gap() -> None:
    """An accuracy is computed between the optimizer and the next batch: there the gap ends."""
    found = judged(SHORT, (40, "batch", 50), (42, "model", 20), (44, "backward", 30))
    assert (found.share, found.beside) == (0.5, 0.5)
    assert 0.3 < found.low < 0.5 < found.high < 0.7


def test_a_gap_that_looks_met_too_often_among_the_passes_of_closures_is_not_believed() -> None:
    """The optimizer calls the model and the backward pass: one gap in several passes."""
    found = judged(BUSY, (40, "batch", 10), (44, "step", 90))
    assert (found.share, found.beside) == (0.1, 0.1)
    timed = with_columns(BUSY, optimizer_s=[0.001] * 100)
    assert judged(timed, (40, "batch", 10), (44, "step", 90)).share == 1.0


def test_a_thread_that_prefetches_is_waited_for_in_what_is_not_awake() -> None:
    run = run_of()
    prefetching: Profile = replace(run, loops=[replace(run.loops[0], role="prefetch")])
    quiet = own_loop(10, wall_s=0.010, gap_s=0.006, gap_cpu_s=0.001, gap_runq_s=0.002, cpu_s=0.005)
    found = judge_gap(prefetching, quiet)
    assert (found.share, found.low, found.high) == pytest.approx((0.5, 0.3, 0.6))
    synced = with_columns(quiet, queued_s=[0.0012] * 10)  # behind the backward pass it also sleeps in a log
    assert judge_gap(prefetching, synced).share == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("gap", "wait", "wait_cpu", "wait_queue"),
    [
        (InputGap(1.0, 0.0, 1.0), 0.006, 0.002, 0.004),
        (InputGap(0.5, 0.0, 1.0), 0.003, 0.001, 0.002),
        (InputGap(0.0, 0.0, 1.0, beside=0.5), 0.002, 0.0005, 0.0015),
        (InputGap(0.5, 0.0, 1.0, beside=0.5, busy=0.2), 0.005, 0.0006, 0.0014),
    ],
)
def test_as_a_loop_it_waits_for_its_batch_in_that_part(
    gap: InputGap, wait: float, wait_cpu: float, wait_queue: float
) -> None:
    loop = with_waits(run_of(), BUSY, gap)
    table = loop.table
    assert (loop.loader, loop.role, loop.steps, loop.wall_s) == ("", "train", 100, pytest.approx(1.0))
    assert (table.wait_s[0], table.wait_cpu_s[0], table.wait_runq_s[0]) == pytest.approx(
        (wait, wait_cpu, wait_queue)
    )
    assert (table.cpu_s[0], table.runq_s[0]) == pytest.approx((0.003 - wait_cpu, 0.007))
    assert {len(column) for column in vars(table).values()} == {100}


def test_what_it_waits_in_queues_for_a_batch_is_known_by_the_clock() -> None:
    """Samples took the gap for something else; of the waits themselves, a quarter were for another thing."""
    queued = with_columns(BUSY, queued_s=[0.008] * 100)
    gap, unseen = InputGap(0.0, 0.0, 1.0), run_of()
    assert with_waits(unseen, queued, gap).table.wait_s[0] == 0.008
    waits = [f"get ({QUEUE})", f"wait ({THREADING})"]
    seen = [
        Stack(1, "trainer", "MainThread", [*stack(40, "batch").frames, *waits], 30),
        Stack(1, "trainer", "MainThread", [*stack(47, "act").frames, *waits], 10),
    ]
    assert with_waits(profile(*seen), queued, gap).table.wait_s[0] == pytest.approx(0.006)
    uneven = with_columns(BUSY, queued_s=[0.0025, 0.0075] * 50)
    told = with_waits(unseen, uneven, InputGap(1.0, 0.0, 1.0)).table.wait_s
    assert told[:2] == [0.0025, 0.0075], "a looked-at gap of 6 ms is a millisecond too long"
    awake = [replace(one, count=0) for one in seen]  # met only by the look at awake threads
    assert with_waits(profile(*awake), queued, gap).table.wait_s[0] == 0.008


@pytest.mark.parametrize(
    ("loop", "idle"),
    [
        (BUSY, 0.0),  # waiting for a core is not sleep
        (own_loop(100, wall_s=0.010, gap_s=0.006, gap_cpu_s=0.006, cpu_s=0.007), 0.003),
    ],
)
def test_what_is_neither_cpu_nor_queue_is_sleep(loop: Loop, idle: float) -> None:
    step = steps_of(with_waits(run_of(), loop, InputGap(1.0, 0.0, 1.0)).table)[0]
    assert cost_of(step, Beside()).idle == pytest.approx(idle)


def test_stacks_of_another_process_do_not_count() -> None:
    other = Stack(2, "trainer", "MainThread", stack(40, "batch").frames, 99)
    assert judge_gap(profile(other), BUSY).location is None
