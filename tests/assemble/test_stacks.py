"""A worker's call path begins in its loop, whatever its parent was doing when it forked."""

from __future__ import annotations

import pytest

from bottleneck_doctor.assemble.samples import read_stacks
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.run import Process


def test_a_forked_worker_forgets_its_parents_frames() -> None:
    frames = [
        "main (train.py:9)",
        "__iter__ (dataloader.py:1)",
        "_worker_loop (worker.py:2)",
        "decode (data.py:3)",
    ]
    (stack,) = read_stacks([Stack(200, "", "MainThread", frames, 5)], [])
    assert (stack.role, stack.frames) == ("worker", frames[2:])


def test_our_own_frame_around_the_loop_is_cut_too() -> None:
    frames = [
        "_life.<locals>._worker_loop (patch_worker.py:9)",
        "_worker_loop (worker.py:2)",
        "decode (data.py:3)",
    ]
    (stack,) = read_stacks([Stack(200, "", "MainThread", frames, 5)], [])
    assert stack.frames == frames[1:]


def test_everything_else_is_the_trainers() -> None:
    (stack,) = read_stacks([Stack(100, "", "MainThread", ["main (train.py:9)"], 5)], [])
    assert (stack.role, stack.frames) == ("trainer", ["main (train.py:9)"])


@pytest.mark.parametrize(
    ("python", "running"), [("3.9.18", None), ("3.10.13", None), ("3.11.7", 5), ("3.14.0", 5), ("", 5)]
)
def test_old_interpreters_do_not_say_which_thread_sleeps(python: str, running: int | None) -> None:
    """py-spy then takes every thread of a child for awake: measured on 3.9 and 3.10."""
    processes = [Process(100, 1, "trainer", 0.0, 1.0, python=python)]
    for pid in (100, 200):  # a process without the agent is taken to have the same interpreter
        (stack,) = read_stacks([Stack(pid, "", "MainThread", ["main (train.py:9)"], 5, 5)], processes)
        assert stack.running == running
