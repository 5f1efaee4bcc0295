"""Stack samples by function: the user's own first, libraries counted for the line that called them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.hot_lines import LISTED, hot_functions, hot_operators
from bottleneck_doctor.analyse.steps import SAMPLES_AT_LEAST
from bottleneck_doctor.model.instruments import Operator, Stack
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.source.frames import is_users
from tests.analyse.runs import own_loop
from tests.model.profiles import PROFILE

MAIN = "main (/home/ann/train.py:9)"
ITEM = "Photos.__getitem__ (/home/ann/data.py:44)"
LOAD = "load (/usr/lib/python3/dist-packages/PIL/ImageFile.py:425)"
HOOK = "decode (/opt/bottleneck_doctor/agent/input_ops.py:56)"


def seen(
    *stacks: tuple[int, list[str]], role: str = "trainer", pid: int = 10, thread: str = "MainThread"
) -> Profile:
    """A profile with these samples."""
    return replace(PROFILE, stacks=[Stack(pid, role, thread, frames, count) for count, frames in stacks])


def shares(profile: Profile) -> dict[str, tuple[float, float]]:
    """(own, total) by function."""
    return {one.function: (one.own_share, one.total_share) for one in hot_functions(profile)}


def test_library_code_counts_for_the_users_function_that_called_it() -> None:
    profile = seen((60, [MAIN, ITEM, LOAD]), (30, [MAIN, ITEM]), (10, [MAIN]))
    assert shares(profile) == {"Photos.__getitem__": (0.9, 0.9), "main": (0.1, 1.0), "load": (0.6, 0.6)}
    assert [one.users for one in hot_functions(profile)] == [True, True, False]


def test_our_own_frames_are_nobodys() -> None:
    assert shares(seen((10, [MAIN, ITEM, LOAD, HOOK])))["load"] == (1.0, 1.0)


def test_a_recursion_counts_once() -> None:
    assert shares(seen((10, [MAIN, ITEM, ITEM, ITEM]))) == {"Photos.__getitem__": (1.0, 1.0)}


def test_the_line_is_the_one_seen_most() -> None:
    other = MAIN.replace(":9)", ":12)")
    (main,) = hot_functions(seen((10, [MAIN]), (20, [other])))
    assert (main.location.line, main.n) == (12, 30)


@pytest.mark.parametrize(
    ("role", "pid", "thread", "counted"),
    [
        ("trainer", 10, "MainThread", True),
        ("trainer", 10, "QueueFeederThread", False),
        ("trainer", 77, "MainThread", False),  # a launcher, or a server of the user's
        ("worker", 78, "MainThread", True),
    ],
)
def test_only_the_threads_that_train_or_make_batches_count(
    role: str, pid: int, thread: str, counted: bool
) -> None:
    assert bool(shares(seen((10, [MAIN]), role=role, pid=pid, thread=thread))) is counted


def test_a_loop_without_a_loader_counts_too() -> None:
    profile = replace(seen((10, [MAIN]), pid=77), outside=[own_loop(1, pid=77)])
    assert shares(profile) == {"main": (1.0, 1.0)}


def test_each_role_has_shares_of_its_own() -> None:
    both = [*seen((10, [MAIN])).stacks, *seen((990, [ITEM]), role="worker", pid=78).stacks]
    assert shares(replace(PROFILE, stacks=both)) == {"main": (1.0, 1.0), "Photos.__getitem__": (1.0, 1.0)}


def test_a_stack_that_only_the_look_at_awake_threads_met_is_no_sample() -> None:
    assert hot_functions(seen((0, ["train (train.py:5)"]))) == []


def states(*stacks: tuple[int, int | None, list[str]]) -> dict[str, float | None]:
    """on_cpu_share by function, from samples, those of them awake, and frames."""
    told = [Stack(10, "trainer", "MainThread", frames, count, awake) for count, awake, frames in stacks]
    return {one.function: one.on_cpu_share for one in hot_functions(replace(PROFILE, stacks=told))}


def test_a_function_is_on_the_cpu_in_the_share_of_its_own_samples_that_were_awake() -> None:
    found = states((40, 10, [MAIN, ITEM, LOAD]), (40, 40, [MAIN, ITEM]), (20, 0, [MAIN]))
    assert found == {"Photos.__getitem__": 0.625, "main": 0.0, "load": 0.25}


def test_a_second_look_may_see_more_than_the_first_but_no_share_is_above_one() -> None:
    assert states((30, 33, [MAIN]), (0, 2, [MAIN])) == {"main": 1.0}


def test_too_few_samples_or_no_second_look_say_nothing_of_the_cpu() -> None:
    assert states((SAMPLES_AT_LEAST - 1, 5, [ITEM]), (200, None, [MAIN])) == {
        "Photos.__getitem__": None,
        "main": None,
    }


def test_noise_and_length_are_bounded() -> None:
    many = [(1000, [f"f{at} (/home/ann/a.py:{at})"]) for at in range(1, 60)]
    found = hot_functions(seen(*many, (1, [MAIN]), (1, ["broken frame"])))
    assert len(found) == LISTED
    assert "main" not in {one.function for one in found}


@pytest.mark.parametrize(
    ("file", "users"),
    [
        ("/home/ann/train.py", True),
        ("train.py", True),
        ("<frozen runpy>", False),
        ("/x/lib/python3.12/threading.py", False),
        ("/x/site-packages/torch/_ops.py", False),
    ],
)
def test_whose_file_it_is(file: str, users: bool) -> None:
    assert is_users(file) is users


def test_operators_have_shares_of_all_operators() -> None:
    profile = replace(PROFILE, operators=[Operator("aten::add", 2, 0.001), Operator("aten::mm", 1, 0.003)])
    assert [(one.name, one.share) for one in hot_operators(profile)] == [
        ("aten::mm", 0.75),
        ("aten::add", 0.25),
    ]


def test_a_profile_without_windows_has_none() -> None:
    assert (hot_functions(PROFILE), hot_operators(PROFILE)) == ([], [])


def test_operators_that_a_device_computed_are_ordered_by_its_time():
    """Calling `add` costs the host more; computing `mm` costs the device more."""
    told = [Operator("aten::add", 9, 0.004, 0.001), Operator("aten::mm", 1, 0.001, 0.003)]
    found = hot_operators(replace(PROFILE, operators=told))
    assert [(one.name, one.share) for one in found] == [("aten::mm", 0.75), ("aten::add", 0.25)]
