"""Call paths by role: our hooks gone, equal paths joined, never more than a screen has room for."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.analyse.lanes import MOST_FRAMES, MOST_PATHS, call_paths
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.picture import CallPath
from bottleneck_doctor.model.profile import Profile
from tests.model.profiles import PROFILE

MAIN = "main (/home/ann/train.py:9)"
ITEM = "Photos.__getitem__ (/home/ann/data.py:44)"
HOOK = "decode (/opt/bottleneck_doctor/agent/input_ops.py:56)"
DOOR = "<module> (/opt/bottleneck_doctor/inject/sitecustomize.py:3)"


def seen(*stacks: Stack) -> Profile:
    return replace(PROFILE, stacks=list(stacks))


def trainer(frames: list[str], count: int, running: int | None = None) -> Stack:
    return Stack(10, "trainer", "MainThread", frames, count, running)


def worker(frames: list[str], count: int, running: int | None = None, pid: int = 78) -> Stack:
    return Stack(pid, "worker", "MainThread", frames, count, running)


def test_each_role_has_its_own_paths_and_roles_that_were_not_seen_have_none() -> None:
    feeder = Stack(10, "trainer", "QueueFeederThread", [ITEM], 2)
    launcher = Stack(77, "trainer", "MainThread", [MAIN], 3)
    found = call_paths(seen(worker([ITEM], 7), trainer([MAIN], 5), feeder, launcher))
    assert [(one.role, one.samples) for one in found] == [("trainer", 5), ("worker", 7), ("other", 5)]
    assert call_paths(PROFILE) == []


def test_our_own_frames_are_taken_out_and_what_they_parted_is_one_path() -> None:
    (found,) = call_paths(seen(trainer([DOOR, MAIN, ITEM, HOOK], 5, 1), trainer([MAIN, HOOK, ITEM], 4, 2)))
    assert found.paths == [CallPath([MAIN, ITEM], 9, 3)]


def test_equal_paths_of_several_workers_are_joined_and_who_slept_is_known_only_if_it_is_of_all() -> None:
    known = [worker([ITEM], 7, 1, pid=78), worker([ITEM], 5, 2, pid=79)]
    assert call_paths(seen(*known))[0].paths == [CallPath([ITEM], 12, 3)]
    assert call_paths(seen(*known, worker([ITEM], 1, pid=80)))[0].paths == [CallPath([ITEM], 13, None)]


def test_the_heaviest_paths_are_kept_and_the_samples_of_all_are_counted() -> None:
    many = [trainer([f"f{at} (/home/ann/a.py:{at})"], at) for at in range(1, MOST_PATHS + 51)]
    (found,) = call_paths(seen(*many))
    assert len(found.paths) == MOST_PATHS
    assert found.paths[0].count == MOST_PATHS + 50
    assert found.samples == sum(stack.count for stack in many)


def test_a_deep_recursion_keeps_its_ends() -> None:
    frames = [f"f (/home/ann/a.py:{line})" for line in range(1000)]
    (found,) = call_paths(seen(trainer(frames, 1)))
    (path,) = found.paths
    assert len(path.frames) == MOST_FRAMES + 1
    assert (path.frames[0], path.frames[-1]) == (frames[0], frames[-1])
    assert f"{1000 - MOST_FRAMES} frames left out (<recursion>:0)" in path.frames


def test_what_is_no_frame_is_dropped() -> None:
    (found,) = call_paths(seen(trainer(["nonsense", MAIN], 4), trainer(["nonsense"], 1)))
    assert (found.samples, [path.frames for path in found.paths]) == (5, [[MAIN]])
