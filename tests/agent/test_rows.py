"""A process's file of rows: reserved before it is mapped, bounded, and never in the way."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
from pathlib import Path

import pytest

from bottleneck_doctor.agent import rows, wire
from bottleneck_doctor.agent.rows import FACTS_AT_MOST, EventWriter
from bottleneck_doctor.assemble.rows import read_logs

PER_CHUNK = wire.CHUNK_BYTES // wire.ROW.size


@pytest.fixture
def writer(tmp_path: Path) -> EventWriter:
    return EventWriter(str(tmp_path))


def reserved(writer: EventWriter) -> int:
    """Bytes of the file that have blocks on disk."""
    return os.stat(writer.path + ".rows").st_blocks * 512


def test_a_row_comes_back_as_it_was_written(writer: EventWriter, tmp_path: Path) -> None:
    writer.row(wire.NEXT, 10, 20, 1, 2, 3, 4, 5, 6, 7)
    writer.row(wire.BACKWARD, 11, 21, thread=3)
    (log,) = read_logs(tmp_path)
    assert log.rows == [
        (10, 20, 1, 2, 3, 4, 5, 6, 7, wire.NEXT),
        (11, 21, 0, 0, 0, 0, 0, 0, 3, wire.BACKWARD),
    ]
    assert (log.rows[0].wait_ns, log.rows[0].loader, log.rows[1].thread) == (3, 6, 3)
    assert (log.pid, log.parent, log.start_ns) == (os.getpid(), os.getppid(), writer.start_ns)


def test_only_the_header_is_reserved_before_the_first_row(writer: EventWriter) -> None:
    assert reserved(writer) <= 2 * wire.HEADER_BYTES


def test_blocks_are_reserved_before_they_are_written_to(
    writer: EventWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    allocate = os.posix_fallocate
    monkeypatch.setattr(os, "posix_fallocate", lambda *a: (order.append("reserve"), allocate(*a)))

    class Watching:
        def pack_into(self, *values: object) -> None:
            order.append("write")

    monkeypatch.setattr(rows.wire, "ROW", Watching())
    monkeypatch.setattr(rows.wire.ROW, "size", 64, raising=False)
    for _ in range(3):
        writer.row(wire.BACKWARD, 1, 1)
    assert order == ["reserve", "write", "write", "write"]
    assert reserved(writer) >= wire.HEADER_BYTES + wire.FIRST_BYTES


def test_a_process_that_writes_little_takes_little_of_the_disk(writer: EventWriter) -> None:
    """Loader workers may be started anew for each of a hundred epochs."""
    writer.row(wire.BACKWARD, 1, 1)
    assert reserved(writer) <= 64 * 1024


def test_a_full_disk_drops_rows_and_counts_them(
    writer: EventWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.row(wire.BACKWARD, 1, 1)
    room = wire.FIRST_BYTES // wire.ROW.size

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    for _ in range(room + 4):
        writer.row(wire.BACKWARD, 1, 1)
    (log,) = read_logs(tmp_path)
    assert len(log.rows) == room
    assert log.board["dropped"] == 5


def test_a_file_never_grows_beyond_its_limit(writer: EventWriter, tmp_path: Path) -> None:
    for _ in range(PER_CHUNK * wire.MAX_CHUNKS + 7):
        writer.row(wire.BACKWARD, 1, 1)
    assert reserved(writer) <= wire.HEADER_BYTES + wire.MAX_CHUNKS * wire.CHUNK_BYTES + 4096
    assert read_logs(tmp_path)[0].board["dropped"] == 7


def test_a_folder_that_cannot_be_written_costs_only_our_rows(tmp_path: Path) -> None:
    writer = EventWriter(str(tmp_path / "missing"))
    writer.row(wire.BACKWARD, 1, 1)
    writer.post(wire.STEPS, 1)
    writer.fact(fact="process")
    assert writer.dropped == 1


def test_threads_never_share_a_slot(writer: EventWriter, tmp_path: Path) -> None:
    def write(thread: int) -> None:
        for place in range(2000):
            writer.row(wire.BACKWARD, place + 1, 1, thread=thread)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read_logs(tmp_path)[0].rows
    assert sorted((row.thread, row.t) for row in found) == [(n, t + 1) for n in range(4) for t in range(2000)]


def test_a_killed_writer_leaves_its_rows(tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        writer = EventWriter(str(tmp_path))
        for place in range(1, 101):
            writer.row(wire.BACKWARD, place, 1)
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    (log,) = read_logs(tmp_path)
    assert [row.t for row in log.rows] == list(range(1, 101))


def test_facts_are_bounded_and_hold_anything(writer: EventWriter, tmp_path: Path) -> None:
    writer.fact(fact="odd", value=object(), text="\udcff")
    for place in range(FACTS_AT_MOST + 5):
        writer.fact(fact="more", place=place)
    facts = read_logs(tmp_path)[0].facts
    assert len(facts) == FACTS_AT_MOST
    assert facts[0]["fact"] == "odd"


def test_a_fact_that_says_too_much_is_cut_and_the_next_one_still_read(
    writer: EventWriter, tmp_path: Path
) -> None:
    writer.fact(fact="long", text="x" * 100_000)
    writer.fact(fact="next")
    assert [fact["fact"] for fact in read_logs(tmp_path)[0].facts] == ["next"]


def test_links_that_others_put_in_its_place_are_not_followed(writer: EventWriter, tmp_path: Path) -> None:
    """The folder goes with the run; who outlives it must not write where somebody then points."""
    theirs = tmp_path / "theirs"
    theirs.write_bytes(b"")
    os.unlink(writer.path + ".rows")
    for ending in (".rows", ".facts"):
        os.symlink(theirs, writer.path + ending)
    writer.fact(kind="told")
    writer.row(wire.NEXT, 10, 20)
    assert theirs.read_bytes() == b""
    assert writer.dropped == 1


@pytest.mark.parametrize(
    "value",
    [
        "", "\n\"\\\x00\u00e9\ud800", 0, -7, 1 << 70, 0.1, -1e300, math.inf, -math.inf, True, False, None, [],
        {}, (1, [2.5, None]), {"a": {"b": ("c", True)}, 1: 2, None: 3}, Path("/data"),
    ],
)  # fmt: skip
def test_a_fact_is_written_as_json_would(value: object) -> None:
    assert rows._json({"fact": value}) == json.dumps({"fact": value}, default=str)
    assert rows._json([math.nan]) == json.dumps([math.nan])
