"""The kernel's books about the calling thread, by descriptors that anyone may close."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from bottleneck_doctor.agent import clocks
from bottleneck_doctor.agent.wire import NOTHING


@pytest.fixture(autouse=True)
def _fresh() -> None:
    clocks.after_fork()


def test_bytes_read_are_counted_without_our_own_reading(tmp_path: Path) -> None:
    if clocks.io_books()[1] == NOTHING:
        pytest.skip("this kernel keeps no io books")
    file = tmp_path / "data"
    file.write_bytes(b"x" * 5000)
    handle = os.open(file, os.O_RDONLY)
    try:
        before = clocks.io_books(counting_itself=True)
        os.pread(handle, 5000, 0)
        after = clocks.io_books()
    finally:
        os.close(handle)
    assert (after[1] - before[1], after[2] - before[2]) == (5000, 1)


def test_each_thread_reads_its_own_books() -> None:
    seen: list[int] = []

    def work() -> None:
        seen.append(clocks._file("schedstat"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen[0] != clocks._file("schedstat") or seen[0] < 0


def test_a_descriptor_that_was_closed_means_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks.run_queue()
    handle = clocks._file("schedstat")
    if handle < 0:
        pytest.skip("this kernel has no schedstat")
    os.close(handle)
    assert [clocks.run_queue(), clocks.run_queue()] == [NOTHING, NOTHING]


@pytest.mark.parametrize("text", [b"", b"1", b"a b c", b" "])
def test_books_that_make_no_sense_mean_not_known(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "_read", lambda name: text)
    assert clocks.run_queue() == NOTHING
    assert clocks.io_books() == (NOTHING,) * 3


def test_waiting_for_a_core_never_runs_backwards() -> None:
    first = clocks.run_queue()
    assert clocks.run_queue() >= first
