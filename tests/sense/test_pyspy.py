"""Stacks are read from py-spy's folded lines, and its refusals are explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.sense import pyspy
from bottleneck_doctor.sense.pyspy import add_up, compared, explain, find_py_spy, parse_folded
from tests.sense.conftest import Plant

MAIN = "<module> (/home/me/train.py:15);main (/home/me/train.py:13)"


@pytest.mark.parametrize(
    ("line", "stack"),
    [
        (f"thread (7): MainThread;{MAIN} 12", Stack(1, "", "MainThread", MAIN.split(";"), 12)),
        (
            f'process 5:"bash run.sh";process 7:"python train.py";thread (7): MainThread;{MAIN} 3',
            Stack(7, "", "MainThread", MAIN.split(";"), 3),
        ),
        (
            f'process 7:"sh -c a;b process 9 4";process 8:"x";thread (0x7F): Thread-1 (_serve);{MAIN} 1',
            Stack(8, "", "Thread-1 (_serve)", MAIN.split(";"), 1),
        ),
        (f"thread (7);{MAIN} 2", Stack(1, "", "7", MAIN.split(";"), 2)),
        ("f (a b.py:1);g (c.py:2) 2", Stack(1, "", "", ["f (a b.py:1)", "g (c.py:2)"], 2)),
    ],
)
def test_a_line_is_one_path_of_one_thread(line: str, stack: Stack) -> None:
    assert parse_folded([line + "\n"], default_pid=1) == [stack]


def test_equal_paths_are_added_up_and_the_heaviest_are_kept() -> None:
    lines = [f"thread (7): T;f (a.py:{number}) {number}" for number in range(10)]
    stacks = parse_folded([*lines, "thread (7): T;f (a.py:3) 100"], 1, most=2)
    assert [(stack.frames, stack.count) for stack in stacks] == [(["f (a.py:3)"], 103), (["f (a.py:9)"], 9)]


@pytest.mark.parametrize("line", ["", "no count", "thread (7): T 3", "f (a.py:1) -1"])
def test_a_broken_line_gives_nothing(line: str) -> None:
    assert parse_folded([line], 1) == []


def test_a_refusal_names_the_one_thing_that_allows_it(plant: Plant) -> None:
    root = plant({"proc/7/stat": "7 (python) S 1\n", "proc/7/mem": "", ".dockerenv": ""})
    gap = explain(7, "Permission Denied: Try running again with elevated permissions", root)
    assert gap.why == "py-spy may not look into process 7"
    assert gap.do == "start the container with `--cap-add SYS_PTRACE`"


@pytest.mark.parametrize(
    ("scope", "do"),
    [("1", "sudo sysctl kernel.yama.ptrace_scope=0"), ("2", "sudo sysctl kernel.yama.ptrace_scope=1")],
)
def test_yama_is_found_out_behind_no_python_processes(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, scope: str, do: str
) -> None:
    monkeypatch.setattr("bottleneck_doctor.sense.proc_files.in_container", lambda root: False)
    root = plant(
        {"proc/7/stat": "7 (python) S 1\n", "proc/7/mem": "", "proc/sys/kernel/yama/ptrace_scope": scope}
    )
    gap = explain(7, "Error: No python processes found in process 7 or any of its subprocesses", root)
    assert gap.why == f"py-spy may not look into process 7: kernel.yama.ptrace_scope is {scope}"
    assert gap.do == do


@pytest.mark.parametrize("stat", [None, "7 (python) Z 1\n"])
def test_a_process_that_has_ended_is_said_to_have(plant: Plant, stat: str | None) -> None:
    root = plant({"proc/": ""} if stat is None else {"proc/7/stat": stat})
    assert "has ended" in explain(7, "Permission Denied", root).why


def test_an_interpreter_that_py_spy_does_not_know_asks_for_a_newer_one(plant: Plant) -> None:
    root = plant({"proc/7/stat": "7 (python) S 1\n", "proc/7/mem": ""})
    gap = explain(7, "Error: No python processes found in process 7 or any of its subprocesses", root)
    assert (gap.why, gap.do) == (
        "py-spy does not know the Python of process 7",
        "pip install --upgrade py-spy",
    )


def test_another_error_is_passed_on(plant: Plant) -> None:
    root = plant({"proc/7/stat": "7 (bash) S 1\n", "proc/7/mem": ""})
    assert explain(7, "Error: the moon is full\n\nStack backtrace:", root).why == "the moon is full"


def test_the_executable_is_the_given_one_or_beside_the_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("python", "py-spy", "mine"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setattr(pyspy.sys, "executable", str(tmp_path / "python"))
    assert find_py_spy() == str(tmp_path / "py-spy")
    assert find_py_spy(str(tmp_path / "mine")) == str(tmp_path / "mine")
    assert find_py_spy(str(tmp_path / "missing")) is None


def test_a_second_look_says_who_was_awake() -> None:
    asleep, awake = Stack(1, "", "T", ["f"], 9), Stack(1, "", "T", ["g"], 5)
    second = [Stack(1, "", "T", ["g"], 4), Stack(1, "", "T", ["h"], 2)]
    known = compared({1: [asleep, awake]}, {1: second}, {})
    assert [(one.frames[0], one.count, one.running) for one in known] == [
        ("f", 9, 0),
        ("g", 5, 4),
        ("h", 0, 2),
    ]


def test_a_second_look_that_failed_says_nothing_and_one_that_saw_nobody_says_that_all_slept() -> None:
    one, other = Stack(1, "", "T", ["f"], 9), Stack(3, "", "T", ["f"], 5)
    known = compared({1: [one], 2: [other]}, {2: []}, {})
    assert [(stack.pid, stack.running) for stack in known] == [(1, None), (3, 0)]


def test_a_third_look_says_who_was_in_python() -> None:
    stacks = [Stack(1, "", "T", ["python"], 9), Stack(1, "", "T", ["product"], 9)]
    known = compared({1: stacks}, {1: stacks}, {1: [Stack(1, "", "T", ["python"], 8)]})
    assert [(one.frames[0], one.running, one.holding) for one in known] == [
        ("python", 9, 8),
        ("product", 9, 0),
    ]


def test_two_windows_add_up_and_stay_bounded() -> None:
    first = [Stack(1, "", "T", ["f"], 9, 3, 1), Stack(1, "", "T", ["g"], 2)]
    later = [Stack(1, "", "T", ["f"], 1, 1, None), Stack(1, "", "T", ["h"], 5, 5, 5)]
    assert [(one.frames[0], one.count, one.running, one.holding) for one in add_up(first, later)] == [
        ("f", 10, 4, 1),
        ("h", 5, 5, 5),
        ("g", 2, None, None),
    ]
    many = [Stack(1, "", "T", [f"f{n}"], n) for n in range(5 * pyspy.MOST_PATHS)]
    kept = add_up(many, [])
    assert len(kept) == 2 * pyspy.MOST_PATHS
    assert kept[0].count == 5 * pyspy.MOST_PATHS - 1
