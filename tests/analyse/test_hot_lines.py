"""The user's hottest line is the deepest that holds half of a batch's making, whoever slept there."""

from __future__ import annotations

import pytest

from bottleneck_doctor.analyse.hot_lines import LineShare, hot_lines, least_cpu_share
from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.diagnosis import Inputs
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.loops import Feed, Loader, LoopBody
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Process, Run
from tests.analyse.runs import own_loop

FETCH = "fetch (/x/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py:54)"
GET = "Photos.__getitem__ (/data/train.py:20)"
OURS = "Watched.__getitem__ (/opt/bottleneck_doctor/agent/fetch.py:158)"
DECODE = "decode (/data/photos.py:7)"
GZIP = "read (/usr/lib/python3.11/gzip.py:301)"
TAKE = "Photos.__getitem__ (/data/train.py:22)"
LOOP = "main (/data/train.py:40)"
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


@pytest.mark.parametrize(
    ("below", "library"),
    [
        ("load (/x/.venv/lib/python3.11/site-packages/PIL/ImageFile.py:370)", "PIL"),
        ("load (/usr/lib/python3/dist-packages/PIL/ImageFile.py:370)", "PIL"),
        ("loads (/usr/lib/python3.11/json/__init__.py:346)", "json"),
    ],
)
def test_the_library_is_named_wherever_it_is_installed(below: str, library: str) -> None:
    assert hot_lines(profile(worker([FETCH, GET, below], 70)), LOADER).library == library


def test_where_no_line_holds_half_the_one_with_most_is_named() -> None:
    lines = [worker([FETCH, f"f (/data/train.py:{n})"], count) for n, count in ((1, 40), (2, 35), (3, 25))]
    hottest = hot_lines(profile(*lines), LOADER).hottest
    assert hottest is not None
    assert (hottest.location.line, hottest.cpu_share) == (1, None)


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


def test_a_loop_that_fetches_for_itself_has_lines_too() -> None:
    inline = Loader("1:1", "dataloader", 1)
    found = hot_lines(profile(Stack(1, "trainer", "MainThread", [LOOP, FETCH, GET], 99)), inline)
    assert found.hottest is not None
    assert found.hottest.location.line == 20


# Line 41 gets the batch for the model of line 43, whose loss line 45 differentiates.
BODY = LoopBody("/data/train.py", "main", 40, 46, [Feed(41, 41), Feed(43, 43, [0]), Feed(45, 45, [1])])


def gap(*stacks: tuple[list[str], int, int | None], body: LoopBody | None = BODY) -> list[str]:
    """The functions of a loop without a loader that are taken for the making of batches."""
    loop = own_loop(1, body, gap_s=1.0, gap_cpu_s=0.99, wall_s=2.0)
    seen = [
        Stack(1, "trainer", "MainThread", ["<module> (/data/train.py:60)", *one[0]], *one[1:])
        for one in stacks
    ]
    lines = hot_lines(profile(*seen), None, loop).lines
    return [line.location.function for line in lines]


BATCH = ["main (/data/train.py:41)", "get_batch (/data/train.py:9)"]
DEVICE = ["main (/data/train.py:44)", "wait_for_device (/data/train.py:15)"]
FORWARD = ["main (/data/train.py:43)", "f (/x/site-packages/torch/nn/modules/module.py:1)"]
BACKWARD = ["main (/data/train.py:45)", "f (/x/site-packages/torch/autograd/graph.py:1)"]


def test_what_lies_between_forward_and_backward_makes_no_batch() -> None:
    assert gap((BATCH, 30, None), (DEVICE, 60, None), (FORWARD, 5, None), (BACKWARD, 5, None)) == [
        "main",
        "get_batch",
    ]


def test_of_a_loop_that_was_not_found_no_line_makes_batches() -> None:
    assert gap((BATCH, 30, 29), (FORWARD, 60, 60), body=None) == []


@pytest.mark.parametrize(
    ("line", "inputs", "least"),
    [
        (LineShare(Location("a", 1), 0.9, 0.8), Inputs(cpu=1.0), 0.8),
        (LineShare(Location("a", 1), 0.9), Inputs(cpu=1.0), 0.9),
        (LineShare(Location("a", 1), 0.9), Inputs(cpu=0.1, wait=0.9), 0.0),  # it may be the line that slept
        (LineShare(Location("a", 1), 0.9), Inputs(cpu=0.5, storage=0.5), 0.8),
    ],
)
def test_sleep_of_unknown_place_is_charged_to_the_line(line: LineShare, inputs: Inputs, least: float) -> None:
    assert least_cpu_share(line, inputs) == pytest.approx(least)
