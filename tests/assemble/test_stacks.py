"""A worker's call path begins in its loop, whatever its parent was doing when it forked."""

from __future__ import annotations

from bottleneck_doctor.assemble.stacks import read_stacks
from bottleneck_doctor.model.profile import Stack


def test_a_forked_worker_forgets_its_parents_frames() -> None:
    frames = [
        "main (train.py:9)",
        "__iter__ (dataloader.py:1)",
        "_worker_loop (worker.py:2)",
        "decode (data.py:3)",
    ]
    (stack,) = read_stacks([Stack(200, "", "MainThread", frames, 5)])
    assert (stack.role, stack.frames) == ("worker", frames[2:])


def test_our_own_frame_around_the_loop_is_cut_too() -> None:
    frames = [
        "_life.<locals>._worker_loop (patch_worker.py:9)",
        "_worker_loop (worker.py:2)",
        "decode (data.py:3)",
    ]
    (stack,) = read_stacks([Stack(200, "", "MainThread", frames, 5)])
    assert stack.frames == frames[1:]


def test_everything_else_is_the_trainers() -> None:
    (stack,) = read_stacks([Stack(100, "", "MainThread", ["main (train.py:9)"], 5)])
    assert (stack.role, stack.frames) == ("trainer", ["main (train.py:9)"])
