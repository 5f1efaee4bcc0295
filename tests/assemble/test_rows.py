"""Files that end anywhere are read as far as they go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.agent.rows import EventWriter
from bottleneck_doctor.assemble import rows
from bottleneck_doctor.assemble.rows import read_diaries

PER_CHUNK = wire.CHUNK_BYTES // wire.ROW.size


@pytest.fixture
def file(tmp_path: Path) -> Path:
    book = EventWriter(str(tmp_path))
    for place in range(PER_CHUNK + 3):
        book.row(wire.BACKWARD, place + 1, 1)
    book.fact(fact="process", rank=0)
    return Path(book.path + ".rows")


def test_all_chunks_are_read(file: Path) -> None:
    (diary,) = read_diaries(file.parent)
    assert [row.t for row in diary.rows] == list(range(1, PER_CHUNK + 4))
    assert diary.first("process") == {"fact": "process", "rank": 0}
    assert diary.first("torch") == {}


def test_a_row_that_was_not_finished_is_left_out(file: Path) -> None:
    with file.open("r+b") as handle:
        handle.seek(wire.HEADER_BYTES + 5 * wire.ROW.size + wire.ROW.size - 2)
        handle.write(b"\0\0")
    (diary,) = read_diaries(file.parent)
    assert [row.t for row in diary.rows][:7] == [1, 2, 3, 4, 5, 7, 8]


@pytest.mark.parametrize("size", [0, 1, wire.HEADER_BYTES - 1, wire.HEADER_BYTES, wire.HEADER_BYTES + 70])
def test_a_file_cut_anywhere_is_read_as_far_as_it_goes(file: Path, size: int) -> None:
    os.truncate(file, size)
    diaries = read_diaries(file.parent)
    assert len(diaries) == (size >= wire.HEADER_BYTES)
    assert sum(len(diary.rows) for diary in diaries) == max(0, size - wire.HEADER_BYTES) // wire.ROW.size


@pytest.mark.parametrize("place", [0, 8, 12])
def test_a_file_of_another_kind_version_or_row_size_is_left_out(file: Path, place: int) -> None:
    with file.open("r+b") as handle:
        handle.seek(place)
        handle.write(b"\xff")
    assert read_diaries(file.parent) == []


def test_facts_that_are_no_facts_are_left_out(file: Path) -> None:
    facts = file.with_suffix(".facts")
    facts.write_bytes(b'{"fact": "one"}\nnonsense\n[1, 2]\n\xff\xfe\n' + b"[" * 100_000 + b'\n{"fact": "two"')
    (diary,) = read_diaries(file.parent)
    assert diary.facts == [{"fact": "one"}]


def test_a_folder_without_files_has_no_diaries(tmp_path: Path) -> None:
    assert read_diaries(tmp_path) == []
    assert read_diaries(tmp_path / "missing") == []


def test_who_trains_is_read_among_however_many_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "FILES_AT_MOST", 5)
    for place in range(9):
        book = EventWriter(str(tmp_path))
        if place == 8:
            book.post(wire.FIRST, 1)
            last = book.start_ns
    found = read_diaries(tmp_path)
    assert len(found) == 5
    assert found[-1].start_ns == last


def test_of_many_workers_instants_are_left_out_and_none_of_who_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "ROWS_AT_MOST", 8 * PER_CHUNK)
    monkeypatch.setattr(rows, "OTHERS_ROWS_AT_LEAST", 4 * PER_CHUNK)
    for trains in (True, False, False, False):
        book = EventWriter(str(tmp_path))
        if trains:
            book.post(wire.FIRST, 1)
        for fetch in range(2 * PER_CHUNK):
            start = (fetch + 1) * 1_000_003
            book.row(wire.FETCH, start, 1)
            book.row(wire.BATCH, start, 1)
    training, *workers = read_diaries(tmp_path)
    assert len(training.rows) == 4 * PER_CHUNK
    kept = [len(worker.rows) for worker in workers]
    assert 2 * PER_CHUNK < sum(kept) <= 4 * PER_CHUNK
    for worker in workers:
        assert [row.t for row in worker.of(wire.FETCH)] == [row.t for row in worker.of(wire.BATCH)]


def test_a_truth_value_is_no_number(tmp_path: Path) -> None:
    book = EventWriter(str(tmp_path))
    book.row(wire.BACKWARD, 1, 1)
    book.fact(fact="process", rank=True, world_size=2, spare=True)
    (diary,) = read_diaries(tmp_path)
    assert diary.first("process") == {"fact": "process", "world_size": 2, "spare": True}
