"""How a run ended, what it printed last and what the kernel did become one word and one sentence."""

from __future__ import annotations

import pytest

from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Run
from bottleneck_doctor.prove.outcomes import LETTERS_AT_MOST, RunEnd, outcome_of

RUN = Run(["train.py"], "train.py", "/", "2026-11-22T12:00:00+00:00", 1.0, 0)
PROFILE = Profile(RUN, Machine("host", "kernel", "cpu", 2, 2))
TRACEBACK = ["Traceback (most recent call last):", 'File "train.py", line 3, in <module>', "raise it"]


def test_a_run_that_ended_well_is_measured_if_it_left_a_profile() -> None:
    assert outcome_of(RunEnd(0), PROFILE) == ("measured", "")
    outcome, why = outcome_of(RunEnd(0), None)
    assert outcome == "broke"
    assert "no profile" in why


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([*TRACEBACK, "ValueError: no such colour"], "ValueError: no such colour (exit status 1)"),
        (
            [
                "torch.cuda.SomeError: broken",
                "============",
                "train.py FAILED",
                "Root Cause (first observed failure):",
            ],
            "torch.cuda.SomeError: broken (exit status 1)",
        ),
        (
            [
                "[rank1]: ValueError: enough",
                "[rank0]: RuntimeError: pair.cc: Connection closed by peer [127.0.0.1]:3",
                "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
            ],
            "[rank1]: ValueError: enough (exit status 1)",
        ),
        (["bad words"], "bad words (exit status 1)"),
        ([], "exit status 1"),
    ],
)
def test_why_it_broke_is_its_last_error_or_its_last_line(lines: list[str], why: str) -> None:
    assert outcome_of(RunEnd(1, lines=lines), PROFILE) == ("broke", why)


def test_a_long_line_is_cut() -> None:
    _, why = outcome_of(RunEnd(1, lines=["ValueError: " + "x" * 5000]), None)
    assert len(why) < LETTERS_AT_MOST + 30


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory",
        "OSError: [Errno 12] Cannot allocate memory",
        "MemoryError",
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that "
        "dataloader's workers are out of shared memory.",
        "RuntimeError: unable to mmap 64 bytes from file </torch_7_1_0>: Cannot allocate memory (12)",
    ],
)
def test_whoever_complains_of_memory_ran_out_of_it(line: str) -> None:
    assert outcome_of(RunEnd(1, lines=[*TRACEBACK, line]), PROFILE) == ("out-of-memory", line)


@pytest.mark.parametrize("status", [137, -9])
def test_killed_is_out_of_memory_only_where_the_kernel_counted_a_victim(status: int) -> None:
    assert outcome_of(RunEnd(status, short_of_memory=True), None)[0] == "out-of-memory"
    assert outcome_of(RunEnd(status), None) == ("broke", "killed")


def test_a_worker_that_the_kernel_killed_counts_too() -> None:
    line = "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed."
    assert outcome_of(RunEnd(1, short_of_memory=True, lines=[line]), None)[0] == "out-of-memory"
    assert outcome_of(RunEnd(1, lines=[line]), None)[0] == "broke"


def test_a_crash_is_told_by_the_name_of_its_signal() -> None:
    assert outcome_of(RunEnd(139), None) == ("broke", "died of SIGSEGV")


def test_whom_we_ended_is_judged_by_our_reason_whatever_it_printed() -> None:
    lines = ["MemoryError"]
    assert outcome_of(RunEnd(hang="no batch for 20 s", lines=lines), None) == ("hung", "no batch for 20 s")
    assert outcome_of(RunEnd(scarce="too much", lines=lines), PROFILE) == ("out-of-memory", "too much")
    assert outcome_of(RunEnd(hang="x", interrupted=True), PROFILE)[0] == "interrupted"
