"""Files that end anywhere are read as far as they go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.agent.rows import EventWriter
from bottleneck_doctor.assemble import rows
from bottleneck_doctor.assemble.facts import ProcessFact, TorchFact
from bottleneck_doctor.assemble.rows import read_logs

PER_CHUNK = wire.CHUNK_BYTES // wire.ROW.size


@pytest.fixture
def file(tmp_path: Path) -> Path:
    writer = EventWriter(str(tmp_path))
    for place in range(PER_CHUNK + 3):
        writer.row(wire.BACKWARD, place + 1, 1)
    writer.fact(fact="process", rank=0)
    return Path(writer.path + ".rows")


def test_all_chunks_are_read(file: Path) -> None:
    (log,) = read_logs(file.parent)
    assert [row.t for row in log.rows] == list(range(1, PER_CHUNK + 4))
    assert log.told(ProcessFact) == [ProcessFact(rank=0)]
    assert log.told(TorchFact) == []
    assert log.first(TorchFact) == TorchFact()


def test_a_row_that_was_not_finished_is_left_out(file: Path) -> None:
    with file.open("r+b") as handle:
        handle.seek(wire.HEADER_BYTES + 5 * wire.ROW.size + wire.ROW.size - 2)
        handle.write(b"\0\0")
    (log,) = read_logs(file.parent)
    assert [row.t for row in log.rows][:7] == [1, 2, 3, 4, 5, 7, 8]


@pytest.mark.parametrize("size", [0, 1, wire.HEADER_BYTES - 1, wire.HEADER_BYTES, wire.HEADER_BYTES + 70])
def test_a_file_cut_anywhere_is_read_as_far_as_it_goes(file: Path, size: int) -> None:
    os.truncate(file, size)
    logs = read_logs(file.parent)
    assert len(logs) == (size >= wire.HEADER_BYTES)
    assert sum(len(log.rows) for log in logs) == max(0, size - wire.HEADER_BYTES) // wire.ROW.size


@pytest.mark.parametrize("place", [0, 8, 12])
def test_a_file_of_another_kind_version_or_row_size_is_left_out(file: Path, place: int) -> None:
    with file.open("r+b") as handle:
        handle.seek(place)
        handle.write(b"\xff")
    assert read_logs(file.parent) == []


def test_facts_that_are_no_facts_are_left_out(file: Path) -> None:
    facts = file.with_suffix(".facts")
    facts.write_bytes(b'{"fact": "one"}\nnonsense\n[1, 2]\n\xff\xfe\n' + b"[" * 100_000 + b'\n{"fact": "two"')
    (log,) = read_logs(file.parent)
    assert log.facts == [{"fact": "one"}]


def test_a_folder_without_files_has_no_diaries(tmp_path: Path) -> None:
    assert read_logs(tmp_path) == []
    assert read_logs(tmp_path / "missing") == []


def test_who_trains_is_read_among_however_many_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "FILES_AT_MOST", 5)
    for place in range(9):
        writer = EventWriter(str(tmp_path))
        if place == 8:
            writer.post(wire.FIRST, 1)
            last = writer.start_ns
    found = read_logs(tmp_path)
    assert len(found) == 5
    assert found[-1].start_ns == last


def test_of_many_workers_instants_are_left_out_and_none_of_who_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "ROWS_AT_MOST", 8 * PER_CHUNK)
    monkeypatch.setattr(rows, "OTHERS_ROWS_AT_LEAST", 4 * PER_CHUNK)
    for trains in (True, False, False, False):
        writer = EventWriter(str(tmp_path))
        if trains:
            writer.post(wire.FIRST, 1)
        for fetch in range(2 * PER_CHUNK):
            start = (fetch + 1) * 1_000_003
            writer.row(wire.FETCH, start, 1)
            writer.row(wire.BATCH, start, 1)
    training, *workers = read_logs(tmp_path)
    assert len(training.rows) == 4 * PER_CHUNK
    kept = [len(worker.rows) for worker in workers]
    assert 2 * PER_CHUNK < sum(kept) <= 4 * PER_CHUNK
    for worker in workers:
        assert [row.t for row in worker.of(wire.FETCH)] == [row.t for row in worker.of(wire.BATCH)]


def test_a_truth_value_is_no_number(tmp_path: Path) -> None:
    writer = EventWriter(str(tmp_path))
    writer.row(wire.BACKWARD, 1, 1)
    writer.fact(fact="process", rank=True, world_size=2, python=3, spare=True)
    (log,) = read_logs(tmp_path)
    assert log.first(ProcessFact) == ProcessFact(world_size=2)
