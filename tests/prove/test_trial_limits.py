"""What a trial may take: time, silence and memory; when it hangs, and when it must end."""

import mmap
import os
import time
from collections import namedtuple
from pathlib import Path

import psutil
import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.prove import trial_limits
from bottleneck_doctor.prove.trial_limits import HangDetector, Limits, MemoryWatch
from bottleneck_doctor.sense.host import Cgroups

S = 1_000_000_000
ALIVE, PARENT, DEAD = os.getpid(), os.getppid(), 4_194_304
TRIAL_LIMITS = Limits(steps=40, seconds=500.0, first_batch_s=30.0, silence_s=20.0)


@pytest.fixture
def trial(tmp_path: Path) -> HangDetector:
    return HangDetector(tmp_path, TRIAL_LIMITS, started_ns=100 * S)


def post(trial: HangDetector, pid: int, trained: int, last_s: float) -> None:
    """What an agent's header says."""
    folder = trial.place / ".bdoc-run-x"
    folder.mkdir(exist_ok=True)
    header = bytearray(wire.HEADER_BYTES)
    wire.IDENTITY.pack_into(header, 0, wire.MAGIC, wire.VERSION, wire.ROW.size, pid, 1, 1)
    words = {wire.STEPS: trained + 1, wire.TRAINED: trained, wire.FIRST: 110 * S, wire.LAST: int(last_s * S)}
    for word, value in words.items():
        wire.WORD.pack_into(header, word, value)
    with (folder / f"{pid}-1.rows").open("r+b" if (folder / f"{pid}-1.rows").exists() else "wb") as file:
        file.write(header)


@pytest.mark.parametrize(
    ("posts", "at_s", "says"),
    [
        ([], 129, ""),
        ([], 131, "no first batch within 30 s"),
        ([(ALIVE, 2, 115.0)], 144, ""),  # the first steps may take as long as a start
        ([(ALIVE, 2, 115.0)], 146, "no batch for 30 s, after 2 steps"),
        ([(ALIVE, 30, 115.0)], 136, "no batch for 20 s, after 30 steps"),
        ([(ALIVE, 30, 115.0), (PARENT, 15, 140.0)], 150, ""),  # one that moves is enough
        ([(ALIVE, 40, 116.0)], 137, "it did not end within 20 s of its last step"),
    ],
)
def test_silence_means_that_it_hangs(
    trial: HangDetector, posts: list[tuple[int, int, float]], at_s: int, says: str
) -> None:
    for one in posts:
        post(trial, *one)
    assert trial.look(at_s * S) == says


def test_whatever_moves_does_not_hang(trial: HangDetector) -> None:
    post(trial, ALIVE, 5, 115.0)
    assert trial.look(134 * S) == ""
    post(trial, ALIVE, 6, 134.5)
    assert trial.look(154 * S) == ""
    assert trial.trained == 6


def test_a_training_that_is_over_does_not_hang_whatever_bdoc_still_writes(trial: HangDetector) -> None:
    post(trial, DEAD, 40, 115.0)
    assert trial.look(500 * S) == ""
    assert trial.is_over


GIB = 1 << 30
Virtual = namedtuple("Virtual", "available total")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What the machine says it has."""
    told = {"available": 20 * GIB}
    monkeypatch.setattr(psutil, "virtual_memory", lambda: Virtual(told["available"], 32 * GIB))
    return told


def test_scarce_memory_ends_a_trial_before_the_kernel_kills(machine: dict[str, int]) -> None:
    watched = MemoryWatch(_cgroups=Cgroups("none"))
    assert watched.look(list, 0.0) == ""
    machine["available"] = GIB
    assert "left 1024 MiB of memory to other programs" in watched.look(list, 0.1)


def test_pages_that_processes_share_count_once() -> None:
    size = 64 << 20
    block = mmap.mmap(-1, size)
    block.write(b"x" * size)
    alone = MemoryWatch()
    alone.look(lambda: [psutil.Process()], 0.0)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        block.seek(0)
        while block.read(1 << 20):
            pass
        os.write(writer, b"all read")
        time.sleep(20)
        os._exit(0)
    try:
        os.read(reader, 8)
        together = MemoryWatch()
        together.look(lambda: [psutil.Process(), psutil.Process(child)], 0.0)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)
    assert alone.peak_bytes is not None
    assert together.peak_bytes is not None
    assert together.peak_bytes < alone.peak_bytes + size // 2


def test_a_group_with_less_room_than_the_machine_counts(tmp_path: Path, machine: dict[str, int]) -> None:
    for name, text in {
        "memory.max": str(4 * GIB),
        "memory.current": str(3 * GIB),
        "memory.stat": f"anon 1\nactive_file {GIB}\ninactive_file {GIB // 2}\n",
    }.items():
        (tmp_path / name).write_text(text)
    group = Cgroups("v2", [tmp_path])
    assert trial_limits._room(group) == (2.5 * GIB, 4 * GIB)
    (tmp_path / "memory.max").write_text("max\n")
    assert trial_limits._room(group) == (20 * GIB, 32 * GIB)
