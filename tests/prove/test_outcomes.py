"""How a run ended, what it printed last and what the kernel did become one word and one sentence."""

import pytest

from bottleneck_doctor.prove.trial_limits import outcome_of

TRACEBACK = ["Traceback (most recent call last):", 'File "train.py", line 3, in <module>', "raise it"]


def ended(
    status: int, *lines: str, short_of_memory: bool = False, has_profile: bool = True
) -> tuple[str, str]:
    return outcome_of(status, list(lines), short_of_memory, has_profile)


def test_a_run_that_ended_well_is_measured_if_it_left_a_profile() -> None:
    assert ended(0) == ("measured", "")
    assert ended(0, has_profile=False) == ("broke", "no profile was written")


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
        ([], "exit status 1"),
    ],
)
def test_why_it_broke_is_its_last_error_or_its_last_line(lines: list[str], why: str) -> None:
    assert ended(1, *lines) == ("broke", why)


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory",
        "MemoryError",
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that "
        "dataloader's workers are out of shared memory.",
        "RuntimeError: unable to mmap 64 bytes from file </torch_7_1_0>: Cannot allocate memory (12)",
    ],
)
def test_whoever_complains_of_memory_ran_out_of_it(line: str) -> None:
    assert ended(1, *TRACEBACK, line) == ("out-of-memory", line)


@pytest.mark.parametrize("status", [137, -9])
def test_killed_is_out_of_memory_only_where_the_kernel_counted_a_victim(status: int) -> None:
    assert ended(status, short_of_memory=True)[0] == "out-of-memory"
    assert ended(status) == ("broke", "killed")


def test_a_crash_is_told_by_the_name_of_its_signal() -> None:
    assert ended(139) == ("broke", "died of SIGSEGV")
