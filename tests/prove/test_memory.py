"""Memory of a trial: counted once where it is shared, and an end to it before others lack it."""

from __future__ import annotations

import mmap
import os
import time
from collections import namedtuple
from pathlib import Path

import psutil
import pytest

from bottleneck_doctor.prove import limits
from bottleneck_doctor.prove.limits import Memory

GIB = 1 << 30
Virtual = namedtuple("Virtual", "available total")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What the machine says it has; no control group says otherwise."""
    told = {"available": 20 * GIB}
    monkeypatch.setattr(psutil, "virtual_memory", lambda: Virtual(told["available"], 32 * GIB))
    monkeypatch.setattr(limits, "groups_with", lambda *names: [])
    return told


def test_scarce_memory_ends_a_trial_before_the_kernel_kills(machine: dict[str, int]) -> None:
    watched = Memory()
    assert watched.look(list, 0.0) == ""
    machine["available"] = GIB
    assert "left 1024 MiB of memory to everybody else" in watched.look(list, 0.1)


def test_where_it_was_scarce_before_the_trial_may_begin_all_the_same(machine: dict[str, int]) -> None:
    machine["available"] = GIB
    watched = Memory()
    assert watched.look(list, 0.0) == ""
    machine["available"] = GIB // 4
    assert watched.look(list, 0.1) != ""


def test_pages_that_processes_share_count_once() -> None:
    size = 64 << 20
    block = mmap.mmap(-1, size)
    block.write(b"x" * size)
    alone = Memory()
    alone.look(lambda: [psutil.Process()], 0.0)
    child = os.fork()
    if child == 0:
        block.seek(0)
        while block.read(1 << 20):
            pass
        time.sleep(20)
        os._exit(0)
    try:
        time.sleep(0.3)
        together = Memory()
        together.look(lambda: [psutil.Process(), psutil.Process(child)], 0.0)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert alone.peak_bytes is not None
    assert together.peak_bytes is not None
    assert together.peak_bytes < alone.peak_bytes + size // 2


def test_looks_that_are_dear_become_rare() -> None:
    watched, asked = Memory(), []

    def family() -> list[psutil.Process]:
        asked.append(None)
        busy_until = time.thread_time() + 0.02
        while time.thread_time() < busy_until:
            pass
        return []

    for tick in range(30):
        watched.look(family, tick / 10)
    assert len(asked) <= 2


def test_a_group_with_less_room_than_the_machine_counts(tmp_path: Path) -> None:
    group = tmp_path
    for name, text in {
        "memory.max": str(4 * GIB),
        "memory.current": str(3 * GIB),
        "memory.stat": f"anon 1\nactive_file {GIB}\ninactive_file {GIB // 2}\n",
    }.items():
        (group / name).write_text(text)
    assert limits._room_in(group) == (2.5 * GIB, 4 * GIB)
    (group / "memory.max").write_text("max\n")
    assert limits._room_in(group) is None
