"""Files of rows, what is declared of them, the kernel's books and what a batch is made of."""

import copy
import json
import math
import os
import threading
from collections import UserDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import zeros

from bottleneck_doctor.agent import rows, wire
from bottleneck_doctor.agent.batch_contents import PARTS_AT_MOST, checksum, leaves, padding, sizes
from bottleneck_doctor.agent.rows import EventWriter
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


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (zeros(10), (1, 40, 0, 4)),
        ([zeros(10), zeros(1)], (2, 44, 0, 4)),
        ({"x": zeros(2), "name": "abc", "raw": b"12345"}, (1, 8, 8, 4)),
        ((zeros(1), [("a", 3)]), (1, 4, 1, 4)),
        ([zeros(1)] * (PARTS_AT_MOST + 100), (PARTS_AT_MOST, 4 * PARTS_AT_MOST, 0, 4)),
        ([], (0, 0, 0, 0)),
    ],
)
def test_tensors_and_bytes_are_counted(batch: Any, expected: tuple[int, int, int, int]) -> None:
    assert sizes(batch) == expected


def sentences(left: bool = False, filler: int = 0) -> Any:
    """Eight rows of 20 places, row n with 2n+2 real ones."""
    rows = torch.full((8, 20), filler)
    for place in range(8):
        real = torch.randint(5, 90, (2 * place + 2,))
        if left:
            rows[place, 20 - len(real) :] = real
        else:
            rows[place, : len(real)] = real
    return rows


def pictures() -> Any:
    """Margins of zeros around what is drawn."""
    margins = torch.zeros(8, 28, 28)
    margins[:, 4:16, 4:24] = torch.rand(8, 12, 20) + 0.1
    return margins


PADDED = 160 - sum(range(2, 17, 2))


@pytest.mark.parametrize(
    ("batch", "padded"),
    [
        (sentences(), PADDED),
        (sentences(left=True, filler=-100), PADDED),
        (sentences(filler=99), PADDED),
        (torch.randn(8, 20, 3) * (sentences() != 0).unsqueeze(2), PADDED),
        (torch.randn(8, 20, 3) * (sentences(left=True) != 0).unsqueeze(2), PADDED),
        (pictures(), 0),
        ((torch.rand(64, 40) < 0.1).long() * torch.randint(2, 9, (64, 40)), 0),  # counts of words
        (torch.randn(8, 20), 0),
        (torch.randn(8, 3, 20, 20), 0),
        (torch.randint(0, 2, (8, 20)), 0),  # a mask, or labels
        (torch.arange(160), 0),
        (torch.zeros(0, 20, dtype=torch.int64), 0),
        ("text", 0),
    ],
)
def test_what_fills_rows_at_an_end_is_padding(batch: Any, padded: int) -> None:
    assert padding([batch])[1] == padded


@pytest.mark.parametrize("left", [False, True])
def test_places_beyond_the_longest_row_are_counted(left: bool) -> None:
    rows = sentences(left)
    assert padding(rows[:4]) == (80, 80 - 2 - 4 - 6 - 8, 4 * 12)
    assert padding(rows) == (160, PADDED, 8 * 4)


@dataclass
class Pair:
    left: Any
    right: Any

    def __iter__(self) -> Any:
        raise AssertionError("a method of the script's ran")


class Encoding(UserDict[str, Any]):
    def __getattr__(self, name: str) -> Any:
        raise AssertionError("a method of the script's ran")

    __iter__ = __len__ = __getitem__ = Pair.__iter__  # type: ignore[assignment]


def test_dictionaries_of_users_and_dataclasses_are_entered() -> None:
    encoding = Encoding()
    encoding.__dict__["data"] = {"input_ids": sentences(), "mask": torch.ones(8, 20)}
    assert list(map(id, leaves(encoding))) == list(map(id, encoding.__dict__["data"].values()))
    assert padding(encoding)[1] == PADDED
    pair = Pair(torch.ones(2), [torch.ones(3)])
    assert [len(one) for one in leaves({"pair": pair})] == [2, 3]
    assert list(leaves(Pair)) == [Pair]


class Computed:
    """What computes its own dictionary stays a leaf."""

    __dataclass_fields__: ClassVar = {"data": None}

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise AssertionError("a property of the script's ran")


def test_an_object_that_computes_its_dictionary_is_a_leaf() -> None:
    computed = Computed()
    assert list(leaves([computed])) == [computed]


FRAME = torch.zeros(3, 256, 256)
NOISY = FRAME.clone()
NOISY[:, 128:] = torch.rand(3, 128, 256)  # beyond the first 64 KiB


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (FRAME, NOISY),
        (FRAME.permute(1, 2, 0), NOISY.permute(1, 2, 0)),
        (["scan", FRAME[:, ::2]], ["scan", NOISY[:, ::2]]),
        (np.asarray(FRAME), np.asarray(NOISY)),
        ((FRAME, 0.25), (FRAME, 0.5)),
        ((FRAME, np.float32(0.25)), (FRAME, np.float32(0.5))),
        (torch.ones(3, dtype=torch.bfloat16), torch.zeros(3, dtype=torch.bfloat16)),
        (["a"] * 100 + [1, b"a" * 99_999], ["a"] * 100 + [1, b"b" + b"a" * 99_998]),
    ],
)
def test_samples_that_differ_anywhere_have_another_checksum(one: Any, other: Any) -> None:
    assert checksum(one) == checksum(copy.deepcopy(one)) != checksum(other)
    assert checksum(one)[1] > 0


@pytest.mark.parametrize("part", [object(), np.array([object()]), [0] * (PARTS_AT_MOST + 1)])
def test_a_sample_with_a_part_that_cannot_be_read_is_compared_with_none(part: Any) -> None:
    assert checksum(["scan.png", FRAME, part]) == (0, 0)
