"""Stack samples by function, line and call path; waiting for the interpreter's lock."""

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.hot_lines import LineShare, hot_functions, hot_lines
from bottleneck_doctor.analyse.loop_cpu import held_by_lock, lock_wait
from bottleneck_doctor.analyse.timeline import MOST_FRAMES, call_paths
from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.diagnosis import BatchCost, CostShares, Scenario, StepCost
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.loops import Feed, Loader, LoopBody
from bottleneck_doctor.model.picture import CallPath
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Process, Run
from tests.analyse.runs import own_loop
from tests.findings.builders import loop_of
from tests.model.profiles import PROFILE

MAIN = "main (/home/ann/train.py:9)"
ITEM = "Photos.__getitem__ (/home/ann/data.py:44)"
LOAD = "load (/usr/lib/python3/dist-packages/PIL/ImageFile.py:425)"


def seen(
    *stacks: tuple[int, list[str]], role: str = "trainer", pid: int = 10, thread: str = "MainThread"
) -> Profile:
    """A profile with these samples."""
    return replace(PROFILE, stacks=[Stack(pid, role, thread, frames, count) for count, frames in stacks])


def test_library_code_counts_for_the_users_function_that_called_it() -> None:
    found = hot_functions(seen((60, [MAIN, ITEM, LOAD]), (30, [MAIN, ITEM]), (10, [MAIN])))
    assert [(one.function, one.own_share, one.total_share, one.users) for one in found] == [
        ("Photos.__getitem__", 0.9, 0.9, True), ("main", 0.1, 1.0, True), ("load", 0.6, 0.6, False),
    ]  # fmt: skip


FETCH = "fetch (/x/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py:54)"
GET = "Photos.__getitem__ (/data/train.py:20)"
OURS = "Watched.__getitem__ (/opt/bottleneck_doctor/agent/fetch.py:158)"
DECODE = "decode (/data/photos.py:7)"
GZIP = "read (/usr/lib/python3.11/gzip.py:301)"
TAKE = "Photos.__getitem__ (/data/train.py:22)"
LOADER = Loader("1:1", "dataloader", 1, num_workers=2)
RUN = Run([], None, "/", "", 1.0, 0)


def profile(*stacks: Stack) -> Profile:
    processes = [Process(pid, 1, "worker", 0.0, loader=key) for pid, key in ((7, "1:1"), (8, "1:2"))]
    return Profile(RUN, Machine("", "", "", 2, 2.0), processes=processes, stacks=list(stacks))


def worker(frames: list[str], count: int, running: int | None = None, pid: int = 7) -> Stack:
    return Stack(pid, "worker", "MainThread", ["_worker_loop (w.py:1)", *frames], count, running)


def test_the_deepest_line_that_holds_half_is_named_with_what_it_calls() -> None:
    seen = profile(worker([FETCH, OURS, GET, DECODE, GZIP], 70, 68), worker([FETCH, TAKE], 30, 32))
    found = hot_lines(seen, LOADER)
    assert found.hottest == LineShare(Location("/data/photos.py", 7, "decode"), 0.7, 0.68)
    assert found.library == "gzip"
    assert [line.location.line for line in found.lines] == [20, 7, 22]


def test_a_function_that_holds_half_over_several_lines_is_known() -> None:
    frames = ["all (/data/a.py:2)", "<genexpr> (/data/a.py:2)", "one (/data/a.py:9)"]
    lines = (["save (/data/a.py:20)"], 35), (["save (/data/a.py:22)"], 35), ([], 30)
    found = hot_lines(profile(*(worker([FETCH, *frames, *below], count) for below, count in lines)), LOADER)
    assert found.hottest is not None
    assert found.hottest.location.line == 9
    assert found.function is not None
    assert (found.function.location.function, found.function.share) == ("save", 0.7)
    assert hot_lines(profile(worker([FETCH, *frames], 99)), LOADER).function is None


@pytest.mark.parametrize(
    "stack",
    [
        worker([GET], 99),  # a worker that waits for an index
        worker([FETCH, GET], 99, pid=8),  # another loader's
        worker([FETCH, GET], 19),  # too few to say
        worker([FETCH, GZIP], 99),  # nothing of the user's
        Stack(1, "trainer", "MainThread", [FETCH, GET], 99),  # not those who fetch for this loader
    ],
)
def test_other_samples_name_no_line(stack: Stack) -> None:
    assert hot_lines(profile(stack), LOADER).hottest is None


# Line 41 gets the batch for the model of line 43, whose loss line 45 differentiates.
BODY = LoopBody("/data/train.py", "main", 40, 46, [Feed(41, 41), Feed(43, 43, [0]), Feed(45, 45, [1])])


BATCH = ["main (/data/train.py:41)", "get_batch (/data/train.py:9)"]
DEVICE = ["main (/data/train.py:44)", "wait_for_device (/data/train.py:15)"]
FORWARD = ["main (/data/train.py:43)", "f (/x/site-packages/torch/nn/modules/module.py:1)"]
BACKWARD = ["main (/data/train.py:45)", "f (/x/site-packages/torch/autograd/graph.py:1)"]


def test_what_lies_between_forward_and_backward_makes_no_batch() -> None:
    stacks = [
        Stack(1, "trainer", "MainThread", ["<module> (/data/train.py:60)", *frames], count)
        for frames, count in ((BATCH, 30), (DEVICE, 60), (FORWARD, 5), (BACKWARD, 5))
    ]
    found = hot_lines(profile(*stacks), None, own_loop(1, BODY, gap_s=1.0, gap_cpu_s=0.99, wall_s=2.0)).lines
    assert [line.location.function for line in found] == ["main", "get_batch"]


def test_equal_paths_of_several_workers_are_joined_and_who_slept_is_known_only_if_it_is_of_all() -> None:
    seen = [
        Stack(pid, "worker", "MainThread", [ITEM], *counts)
        for pid, counts in ((78, (7, 1)), (79, (5, 2)), (80, (1, None)))
    ]
    assert call_paths(replace(PROFILE, stacks=seen[:2]))[0].paths == [CallPath([ITEM], 12, 3)]
    assert call_paths(replace(PROFILE, stacks=seen))[0].paths == [CallPath([ITEM], 13, None)]


def test_a_deep_recursion_keeps_its_ends() -> None:
    frames = [f"f (/home/ann/a.py:{line})" for line in range(1000)]
    (found,) = call_paths(seen((1, frames)))
    (path,) = found.paths
    assert len(path.frames) == MOST_FRAMES + 1
    assert (path.frames[0], path.frames[-1]) == (frames[0], frames[-1])
    assert f"{1000 - MOST_FRAMES} frames left out (<recursion>:0)" in path.frames


LOOP = loop_of(400)
WORK, SLEEP, SAVE = "run (graph.py:9)", "sleep (train.py:5)", "save (/x/torch/serialization.py:9)"


def beside_a_thread(main: dict[str, tuple[int, int]], other: int) -> Profile:
    """Samples of the loop's lines, all and running; so many of another thread's 100 were running."""
    stacks = [Stack(1, "trainer", "MainThread", [line], *seen) for line, seen in main.items()]
    stacks.append(Stack(1, "trainer", "Thread-1", ["count (/data/train.py:20)"], 100, other))
    return Profile(RUN, Machine("", "", "", 2, 2.0), stacks=stacks)


@pytest.mark.parametrize(
    ("main", "other", "share"),
    [
        ({WORK: (100, 40)}, 95, 0.6),
        ({WORK: (50, 20), SLEEP: (50, 1)}, 95, 0.3),
        ({WORK: (100, 40)}, 20, 0.0),
        ({SAVE: (100, 40)}, 95, 0.0),
        ({WORK: (100, 110)}, 95, 0.0),
    ],
)
def test_the_share_of_the_wait(main: dict[str, tuple[int, int]], other: int, share: float) -> None:
    seen = lock_wait(beside_a_thread(main, other), LOOP)
    assert seen is not None
    assert seen.share == pytest.approx(share)


def test_time_without_the_lock_is_the_interpreters() -> None:
    base = Scenario(
        (BatchCost(0.001),), (StepCost(0.004, 0.006),), threads=2.0, shares=CostShares(stored=0.8)
    )
    held = held_by_lock(beside_a_thread({WORK: (100, 70)}, 95), LOOP, base)
    assert held.shares.stored == pytest.approx(0.04), "a log waits for the thread that writes it"
    assert held.threads == 1.0
    assert held.costs[0].python == pytest.approx(0.006), "nothing else explains why it stood still"
    assert held.costs[0].idle == pytest.approx(0.0)
    assert held_by_lock(beside_a_thread({SLEEP: (100, 1)}, 95), LOOP, base) == base
