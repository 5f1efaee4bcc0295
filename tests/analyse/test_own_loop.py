"""Loops without a loader: their parts, what a batch costs them, and who makes batches beside them."""

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.hot_lines import Feeders, find_feeders, hot_lines
from bottleneck_doctor.analyse.inputs import own_inputs, own_works, split_waits, with_feeders
from bottleneck_doctor.analyse.loop_without_loader import InputGap, is_fed_back, judge_gap, with_waits
from bottleneck_doctor.analyse.predict import cause_gains, without_feeders
from bottleneck_doctor.analyse.replay import apply, step_seconds
from bottleneck_doctor.analyse.steady import choose_loop, steps_of
from bottleneck_doctor.model.code import FunctionSource, Location
from bottleneck_doctor.model.diagnosis import (
    BatchCost,
    Change,
    FeederLoad,
    HostLoad,
    Inputs,
    Scenario,
    StepCost,
)
from bottleneck_doctor.model.instruments import Operation, Stack
from bottleneck_doctor.model.loops import Blocked, Feed, Loop, LoopBody
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Process
from tests.analyse.runs import own_loop, run_of
from tests.analyse.test_loop_parts import FILE, TORCH, profile, stack

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


def test_samples_say_how_much_of_the_gap_gets_the_batch_and_where() -> None:
    found = judged(BUSY, (40, "batch", 75), (47, "act", 25), (42, "model", 50), (44, "backward", 50))
    assert (found.share, found.outside) == (0.75, 0.0)
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


def test_a_batch_got_between_model_and_backward_lies_beside_the_gap() -> None:
    found = judged(BUSY, (47, "act", 60), (42, "model", 40), (43, "batch", 20), (44, "backward", 40))
    assert (found.share, found.outside) == (0.0, pytest.approx(0.2))
    assert found.low < 0.2 * 0.4 < found.high


def test_a_batch_got_behind_an_accuracy_is_not_in_the_gap_however_short_it_takes() -> None:
    found = judged(SHORT, (40, "batch", 6), (44, "backward", 40), (46, "model", 20), (47, "act", 34))
    assert (found.share, found.outside) == (0.06, 0.06)


def test_what_passes_between_model_and_backward_is_timed() -> None:
    """The next batch is got there, in a quarter of the rest of the step; few samples only say so."""
    body = LoopBody(
        "/home/ann/train.py", "main", 40, 50, [Feed(43, 43), Feed(42, 42, [0]), Feed(44, 44, [1])]
    )
    timed = own_loop(100, body, wall_s=0.010, gap_s=0.002, late_s=0.002)
    told = judged(timed, (42, "model", 30), (43, "batch", 3), (44, "backward", 40))
    assert (told.share, told.outside) == (0.0, pytest.approx(0.25))
    torn = judged(timed, (42, "model", 3), (43, "batch", 60), (44, "backward", 40), (43, "model", 1))
    assert torn.outside == pytest.approx(0.25, rel=0.03), "a single sample of a model elsewhere is torn"


def test_where_no_module_is_called_the_samples_alone_tell() -> None:
    found = judged(own_loop(100, BODY, wall_s=0.010, gap_s=None), (40, "batch", 60), (44, "backward", 40))
    assert (found.outside, found.busy) == (0.6, None)
    assert 0.0 < found.low < 0.6 < found.high < 1.0


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
        (InputGap(0.0, 0.0, 1.0, outside=0.5), 0.002, 0.0005, 0.0015),
        (InputGap(0.5, 0.0, 1.0, outside=0.5, busy=0.2), 0.005, 0.0006, 0.0014),
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


MS = 1e-3
# Steps of 10 ms: a gap of 6 with 2 on the CPU and 1 without a core; 3 more on the CPU beside it.
LOOP = with_waits(
    run_of(),
    own_loop(100, wall_s=10 * MS, gap_s=6 * MS, gap_cpu_s=2 * MS, gap_runq_s=1 * MS, cpu_s=5 * MS,
             runq_s=1 * MS),
    InputGap(1.0, 0.0, 1.0),
)  # fmt: skip
STEPS = steps_of(LOOP.table)


def seen(counts: dict[str, int]) -> Profile:
    """A run in which the loop's thread was looked at from outside, in each half second."""
    return replace(run_of(), blocked=[Blocked("", [3.1, 3.4], [counts] * 2, pid=1)])


@pytest.mark.parametrize(
    ("counts", "storage", "network", "waits"),
    [
        ({"storage": 30, "running": 70}, 3, 0, {}),
        ({"network": 10, "sleep": 20}, 0, 1, {"sleep": 2}),
        ({"running": 100}, 0, 0, {"other": 3}),  # nobody saw it sleep
    ],
)
def test_time_asleep_in_the_gap_is_what_the_thread_was_seen_to_sleep_in(
    counts: dict[str, int], storage: float, network: float, waits: dict[str, float]
) -> None:
    split = split_waits(seen(counts), LOOP, 3.0, 4.0)
    inputs = own_inputs(STEPS, split, 0.0)
    assert (inputs.batches, inputs.wall, inputs.cpu, inputs.queue) == pytest.approx(
        (100, 6 * MS, 2 * MS, 1 * MS)
    )
    assert (inputs.storage, inputs.network) == pytest.approx((storage * MS, network * MS))
    assert inputs.waits == pytest.approx({name: one * MS for name, one in waits.items()})
    work = own_works(STEPS, split, 0.0)[0]
    assert (work.cpu, work.storage, work.network, work.wait) == pytest.approx(
        (2 * MS, storage * MS, network * MS, sum(waits.values()) * MS)
    )


def test_waiting_for_a_thread_that_runs_is_the_making_of_a_batch_by_looks_at_that_thread() -> None:
    split = with_feeders(
        split_waits(seen({"made": 60, "storage": 20, "lock": 20}), LOOP, 3.0, 4.0), 0.7, False
    )
    work = own_works(STEPS, split, 0.0)[0]
    assert (work.cpu, work.storage, work.wait) == pytest.approx((2 * MS + 1.8 * MS, 0.6 * MS, 0.6 * MS))


def test_the_kernels_cpu_goes_with_writes_whatever_is_read() -> None:
    steps = [replace(one, system=1.5 * MS, faults=0.0) for one in STEPS]
    split = split_waits(seen({"written": 30, "running": 70}), LOOP, 3.0, 4.0)
    inputs = own_inputs(steps, split, 0.0)
    assert (inputs.storage, inputs.written, inputs.reading) == pytest.approx((3 * MS, 3 * MS, 1.5 * MS))
    assert own_works(steps, split, 0.0)[0].reading == pytest.approx(1.5 * MS)


@pytest.mark.parametrize(
    ("text", "wait_ms", "logging_ms"),
    [("os.fsync(manifest.fileno())", 7, 0), ("logging.info(i)", 6, 1)],  # of a cache; a log
    ids=["fsync", "log"],
)
def test_a_cache_that_is_forced_to_the_disk_while_a_batch_is_got_is_no_log(
    text: str, wait_ms: float, logging_ms: float
) -> None:
    logs = Operation("logging", 1, 0, "get_batch", 100, 0.1, 0.04, 0.01, Location(FILE, 9, "get_batch"))
    source = FunctionSource(FILE, "get_batch", 8, f"def get_batch():\n    {text}\n")
    run = replace(profile(stack(40, "batch"), stack(42, "model")), operations=[logs], sources=[source])
    table = with_waits(run, with_columns(BUSY, logging_s=[1 * MS] * 100), InputGap(1.0, 0.0, 1.0)).table
    assert (table.wait_s[0], table.logging_s[0]) == pytest.approx((wait_ms * MS, logging_ms * MS))
    assert table.wait_cpu_s[0] == pytest.approx((2 + 0.4 * (1 - logging_ms)) * MS)


@pytest.mark.parametrize(
    ("system_s", "bytes_per_s", "reading_s"),
    [
        (1.5 * MS, 1e9, 1.5 * MS),  # 10 MB a step: the kernel's time is for them
        (1.5 * MS, 1e7, 0.15 * MS),  # hardly anything was read: it is for something else
        (5 * MS, 1e9, 2 * MS),  # no more than getting the batch takes of the CPU
        (None, 1e9, 0.0),
    ],
)
def test_the_kernels_cpu_for_reads_goes_with_the_reads(
    system_s: float | None, bytes_per_s: float, reading_s: float
) -> None:
    steps = [replace(one, system=system_s, faults=0.0) for one in STEPS]
    split = split_waits(seen({"storage": 30}), LOOP, 3.0, 4.0)
    work = own_works(steps, split, bytes_per_s)[0]
    assert (work.reading, work.on_core) == pytest.approx((reading_s, 2 * MS))
    inputs = own_inputs(steps, split, bytes_per_s)
    assert (inputs.reading, inputs.cpu) == pytest.approx((reading_s, 2 * MS))
    alone = Scenario((work,), (StepCost(3 * MS),))
    assert step_seconds(apply(Change(storage=0), alone)) == pytest.approx(5 * MS - reading_s)
    assert step_seconds(apply(Change(cpu=0), alone)) == pytest.approx(6 * MS + reading_s)


LOOP_FEEDERS = replace(stack(44, "backward", 200), running=80)
FEEDER = Stack(1, "trainer", "Thread-1", [f"run ({FILE}:60)", f"decode ({FILE}:70)"], 200, 190)
STARTED = [f"main ({FILE}:88)", "start (/usr/lib/python3.11/multiprocessing/process.py:121)"]
POOLED = [*STARTED, "worker (/usr/lib/python3.11/multiprocessing/pool.py:125)", f"degrade ({FILE}:75)"]


def pooled(count: int) -> Profile:
    """A loop beside so many forked processes of a pool."""
    children = [Process(pid, 1, "other", 0.0) for pid in range(10, 10 + count)]
    stacks = [Stack(one.pid, "trainer", "MainThread", POOLED, 200, 160) for one in children]
    return replace(profile(LOOP_FEEDERS, *stacks), processes=[Process(1, 0, "trainer", 0.0), *children])


def test_a_busy_thread_of_the_users_is_a_feeder_and_its_lines_make_the_batches() -> None:
    found = find_feeders(profile(LOOP_FEEDERS, FEEDER), 1)
    assert (found.count, found.cores) == (1, pytest.approx(0.95))
    hottest = hot_lines(profile(LOOP_FEEDERS, FEEDER), None, own_loop(100, wall_s=0.02)).hottest
    assert hottest is not None
    assert (hottest.location.function, hottest.location.line) == ("decode", 70)


@pytest.mark.parametrize(
    "beside",
    [
        replace(FEEDER, running=20),
        replace(FEEDER, frames=["wait (/usr/lib/python3.11/threading.py:320)"]),
        replace(FEEDER, pid=2),
        replace(FEEDER, frames=[f"save ({FILE}:61)", f"_save ({TORCH}serialization.py:900)"]),
    ],
)
def test_a_thread_that_sleeps_writes_or_runs_no_line_of_the_users_is_none(beside: Stack) -> None:
    assert find_feeders(profile(LOOP_FEEDERS, beside), 1) == Feeders()


def test_processes_of_a_pool_are_feeders_below_the_frames_of_their_parent() -> None:
    found = find_feeders(pooled(4), 1)
    assert (found.count, found.cores) == (4, pytest.approx(3.2))
    assert {one.frames[0] for one in found.stacks} == {f"degrade ({FILE}:75)"}


@pytest.mark.parametrize(("feeders", "cause"), [(1, "input.preprocess"), (4, "input.oversubscribed")])
def test_the_core_that_feeders_keep_from_the_loop_is_the_inputs_and_not_the_models(
    feeders: int, cause: str
) -> None:
    base = Scenario(
        (BatchCost(0.002),), (StepCost(0.008),), cores=2.0, feeders=FeederLoad(feeders), crowded=0.02
    )
    found = cause_gains(base, Inputs(), None, HostLoad(cores=2.0))
    assert found[cause] > 2.5 > 1.5 > found["model.compute"]
    assert (without_feeders(base) > 1) == (feeders > 2)


TEXT = """\
def main():
    for step in range(steps):
        index, x, y = {source}
        loss = loss_of(model(x), y)
        loss.backward()
        {after}
"""
FED_BODY = LoopBody(FILE, "main", 41, 45, [Feed(42, 42), Feed(43, 43, [0]), Feed(44, 44, [1])])


@pytest.mark.parametrize(
    ("source", "after", "fed_back"),
    [
        ("log.sample(64)", "log.update(index, loss.detach())", True),
        ("log.sample(64)", "history.append(loss.item())", False),
        ("self.buffer.sample(64)", "self.buffer.push(x, loss)", True),
        ("self.get_batch(step)", "self.add_scalar('loss', loss)", False),
        ("trainer.get_batch()", "trainer.report(loss)", False),
    ],
)
def test_what_is_handed_to_the_source_is_feedback(source: str, after: str, fed_back: bool) -> None:
    frames = [f"<module> ({FILE}:90)", f"main ({FILE}:42)", f"get_batch ({FILE}:9)"]
    text = TEXT.format(source=source, after=after)
    run = replace(
        profile(Stack(1, "trainer", "MainThread", frames, 100)),
        sources=[FunctionSource(FILE, "main", 40, text)],
    )
    assert is_fed_back(run, own_loop(100, FED_BODY, wall_s=0.02)) == fed_back
