"""Processes that fork, die, close all descriptors, or fail: never because of us, and rows survive."""

from __future__ import annotations

from typing import Any

import pytest

from bottleneck_doctor.assemble.rows import read_logs
from bottleneck_doctor.model.profile import Profile
from tests.agent.watching import AGENT, PRELUDE, Told, profile_of, said, watched

# One parent that forks a child for each fate, after importing torch once.
SCRIPT = (
    PRELUDE
    + """
import signal

def batches(length=12, **more):
    return DataLoader(Rows(length), batch_size=2, **more)

def trains():
    for batch in batches():
        train_on(batch)

def leaves_at_once():
    for place, batch in enumerate(batches()):
        train_on(batch)
        if place == 3:
            os._exit(7)

def is_killed():
    for place, batch in enumerate(batches(400, num_workers=1)):
        train_on(batch)
        if place == 5:
            os.kill(os.getpid(), signal.SIGKILL)

def closes_all():
    loader = iter(batches(400))
    for place in range(3):
        train_on(next(loader))
    os.closerange(3, 256)
    for batch in loader:
        train_on(batch)
    for batch in batches():
        train_on(batch)

def fails():
    for place, batch in enumerate(batches()):
        train_on(batch)
        if place == 2:
            raise RuntimeError("my own mistake")

def pool():
    import multiprocessing
    with multiprocessing.get_context("fork").Pool(1) as workers:
        assert workers.map(abs, [-1, -2]) == [1, 2]

trains()
for fate in (trains, leaves_at_once, is_killed, closes_all, fails, pool):
    pid = os.fork()
    if pid == 0:
        sys.stderr = open(fate.__name__ + ".err", "w")
        try:
            fate()
        except Exception:
            import traceback
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    say(**{fate.__name__: [pid, os.waitpid(pid, 0)[1]]})
say(parent=os.getpid())
"""
)
FATES = {"trains": 0, "leaves_at_once": 7 << 8, "is_killed": 9, "closes_all": 0, "fails": 1 << 8, "pool": 0}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return watched(tmp_path_factory.mktemp("watched"), SCRIPT)


@pytest.fixture(scope="module")
def seen(told: Told) -> dict[str, Any]:
    return said(told)


@pytest.fixture(scope="module")
def profile(told: Told) -> Profile:
    return profile_of(told)


@pytest.mark.parametrize("fate", FATES)
def test_each_ends_as_it_would_without_us(fate: str, seen: dict[str, Any], told: Told) -> None:
    errors = (told.folder.parent / f"{fate}.err").read_text()
    assert seen[fate][1] == FATES[fate], errors
    assert errors == "" or fate == "fails"


@pytest.mark.parametrize(("fate", "steps"), [("trains", 6), ("leaves_at_once", 4), ("is_killed", 6)])
def test_the_rows_of_a_child_are_its_own_and_whole(
    fate: str, steps: int, seen: dict[str, Any], profile: Profile
) -> None:
    pid = seen[fate][0]
    (process,) = (one for one in profile.processes if one.pid == pid)
    assert (process.role, process.ppid) == ("trainer", seen["parent"])
    (loop,) = (one for one in profile.loops if one.pid == pid)
    assert (loop.role, loop.steps) == ("train", steps)


def test_the_parents_rows_stay_the_parents(seen: dict[str, Any], profile: Profile) -> None:
    (loop,) = (one for one in profile.loops if one.pid == seen["parent"])
    assert loop.steps == 6


def test_a_script_that_closes_all_descriptors_is_still_seen(seen: dict[str, Any], profile: Profile) -> None:
    pid = seen["closes_all"][0]
    steps = {one.loader: one.steps for one in profile.loops if one.pid == pid}
    assert sorted(steps.values()) == [6, 200]


def test_a_process_that_trains_nothing_is_no_trainer(
    told: Told, seen: dict[str, Any], profile: Profile
) -> None:
    (pool,) = (one for one in profile.processes if one.ppid == seen["pool"][0])
    assert pool.role == "other"
    assert all(log.parent for log in read_logs(told.folder))


def test_the_users_error_keeps_its_traceback(told: Told) -> None:
    text = (told.folder.parent / "fails.err").read_text()
    assert text.endswith("RuntimeError: my own mistake\n")
    assert str(AGENT) not in text
    assert "During handling" not in text
