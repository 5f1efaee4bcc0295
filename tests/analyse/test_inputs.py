"""What batches cost: making, moving, reading, mapping and freeing them."""

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.inputs import (
    HANDED_OUT_S,
    HANDED_S,
    BlockedSplit,
    measure_inputs,
    moving_of,
    works_of,
)
from bottleneck_doctor.analyse.memory import Shortage, is_short
from bottleneck_doctor.analyse.replay import apply, step_seconds
from bottleneck_doctor.analyse.steady import steps_of
from bottleneck_doctor.model.code import FunctionSource
from bottleneck_doctor.model.diagnosis import Change, Step
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.loops import Blocked, Payload
from bottleneck_doctor.model.profile import Profile
from tests.analyse.runs import run_of
from tests.analyse.test_loop_parts import FILE, TORCH, body, stack

MS = 1e-3


def fetched(seen: dict[str, int]) -> Profile:
    """Batches of 10 ms, 8 of them asleep in what was seen, while other threads burn 6 ms."""
    run = run_of(cpu=2 * MS, sleep=8 * MS, noise=0.0)
    table = replace(run.fetches[0], other_cpu_s=[6 * MS] * len(run.fetches[0].t))
    return replace(run, fetches=[table], blocked=[Blocked("1:1", [3.0], [seen])] if seen else [])


@pytest.mark.parametrize(
    ("seen", "cpu_ms", "wait_ms"),
    [
        ({"sleep": 50}, 2, 8),  # helpers that spin meanwhile work for nobody
        ({"poll": 50}, 2, 8),
        ({"lock": 50}, 8, 2),  # a pool of threads that the batch waits for
        ({"sleep": 25, "lock": 25}, 6, 4),
        ({}, 8, 2),  # nobody looked: the batch is given what was burned
    ],
)
def test_helpers_that_spin_are_not_the_batchs_cpu_while_it_sleeps(
    seen: dict[str, int], cpu_ms: float, wait_ms: float
) -> None:
    run = fetched(seen)
    inputs = measure_inputs(run, run.fetches[0], 3.0, 99.0, 0)
    split = BlockedSplit(0.0, 0.0, {name: inputs.waits[name] / inputs.wait for name in inputs.waits},
                  inputs.blocked_samples)  # fmt: skip
    work = works_of(run.fetches[0], split, [0])[0]
    assert inputs.wait == pytest.approx(wait_ms * MS)
    assert (work.cpu + work.collate, work.wait) == pytest.approx((cpu_ms * MS, wait_ms * MS))


COMMITS = FunctionSource(FILE, "get_batch", 8, "def get_batch():\n    base.commit()\n    return read()\n")


def committed(seen: dict[str, int], line: int = 9, system: float = 1 * MS) -> Profile:
    """Batches of 10 ms, 2 on the CPU, whose maker was seen in a line, mostly asleep."""
    run = run_of(cpu=2 * MS, storage=8 * MS, noise=0.0)
    many = len(run.fetches[0].t)
    table = replace(run.fetches[0], system_s=[system] * many, storage_bytes=[0] * many, read_bytes=[0] * many)
    fetch, hook = (
        f"fetch ({TORCH}utils/data/_utils/fetch.py:54)",
        "x (/a/bottleneck_doctor/agent/saving.py:1)",
    )
    asleep = Stack(1, "trainer", "MainThread", [fetch, f"get_batch ({FILE}:{line})", hook], 50, 10)
    blocked = [Blocked("1:1", [3.0], [seen])]
    return replace(run, fetches=[table], blocked=blocked, stacks=[asleep], sources=[COMMITS])


@pytest.mark.parametrize(
    ("seen", "line", "written_ms", "kernel_ms"),
    [
        ({"written": 40, "running": 10}, 10, 8, 1),  # by system calls and wait channels
        ({"storage": 40, "running": 10}, 9, 8, 1),  # these were not told: by the lines
        ({"storage": 40, "running": 10}, 10, 0, 0),
        ({"written": 10, "storage": 30, "running": 10}, 10, 0, 0),  # reads, most of them
        ({"written": 40, "running": 1000}, 10, 0, 0),  # few of all looks: the kernel's time is for others
    ],
)
def test_waits_for_writes_are_told_apart_and_take_the_kernels_cpu(
    seen: dict[str, int], line: int, written_ms: float, kernel_ms: float
) -> None:
    run = committed(seen, line)
    inputs = measure_inputs(run, run.fetches[0], 3.0, 99.0, 0)
    assert (inputs.storage, inputs.written, inputs.reading) == pytest.approx(
        (8 * MS, written_ms * MS, kernel_ms * MS)
    )


def test_waits_for_writes_overlap_in_no_more_than_twice_the_streams_that_were_seen() -> None:
    found = diagnose(committed({"written": 40, "running": 10}))
    assert found.scenario is not None
    assert (found.verdict.bound, found.verdict.cause) == ("io", "input.storage")
    assert found.scenario.streams == pytest.approx(1.6), "twice what one maker has under way"
    assert found.verdict.summary == "data loading is blocked on writes that wait for a disk"
    many = step_seconds(apply(Change(workers=16), found.scenario))
    assert many > 4.5 * MS, "of 8 ms each, 1.6 at a time"


PAIR, MANY = Payload("1:1", 9, 2.0, serialise_cpu_s=3e-4), Payload("1:1", 9, 200.0)


def test_with_workers_the_loop_and_the_pickling_thread_were_measured() -> None:
    steps = [Step(0.0, 1, 0.01, *[0.0] * 8, None, None, None, seconds) for seconds in (1e-3, 2e-3, 9e-3)]
    served = 2 * HANDED_OUT_S
    assert moving_of(PAIR, steps, 2, HANDED_S * 2) == pytest.approx((2e-3, 3e-4 + served, served))
    assert moving_of(MANY, steps, 1, None) == (2e-3, 0.0, 0.0), "nothing was pickled: a thread made it"


ASKED = stack(40, "itself")
FETCHED = replace(ASKED, frames=[*ASKED.frames, f"__next__ ({TORCH}utils/data/dataloader.py:1)"])


def run(*stacks: Stack) -> Profile:
    """Steps of 10 ms, 2 of them waiting; so many samples of a loop of the lines 40 to 50."""
    seen = run_of(cpu=2 * MS, compute=8 * MS)
    loop = replace(seen.loops[0], body=body())
    return replace(seen, loops=[loop], stacks=[replace(one, pid=loop.pid) for one in stacks])


def test_the_data_wait_of_the_gate_does_not_depend_on_stacks() -> None:
    seen = run(FETCHED, replace(ASKED, count=10), stack(42, "model", 30), stack(44, "backward", 500))
    with_stacks, without = (diagnose(one).metrics for one in (seen, replace(seen, stacks=[])))
    assert with_stacks["data_wait_fraction"] == without["data_wait_fraction"]
    step = steps_of(seen.loops[0].table)[0]
    assert with_stacks["batch_release_fraction"].value == pytest.approx(step.compute / 4 / step.wall)
    assert "batch_release_fraction" not in without


THRASH = Shortage(0.05, 0.6, 5e8, 0.0, 1000.0, 5e8, 7.0)


@pytest.mark.parametrize(
    ("shortage", "short"),
    [
        (THRASH, True),
        (replace(THRASH, again_bytes_per_s=0.0, swap_in_bytes_per_s=5e7), True),
        (replace(THRASH, limit_hits_per_s=None, loop_faults=0.0), False),  # a stranger thrashes
        (replace(THRASH, loop_faults=0.0), False),  # a data set larger than memory, read again and again
        (replace(THRASH, loop_faults=0.0, stalled=0.3), True),  # reclaim holds the job up at its limit
        (replace(THRASH, again_bytes_per_s=1e7), False),  # little of what is read comes again
        (Shortage(None, None, None, None, None, None, None), False),
    ],
)
def test_a_job_is_short_when_it_waits_itself_and_pages_come_again(shortage: Shortage, short: bool) -> None:
    assert is_short(shortage) is short
