"""Real files are read cold and from memory, side by side, and are afterwards what they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.calibrate.probes import reads

SIZE = 16_384


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Twenty small files."""
    for number in range(20):
        (tmp_path / f"{number}.bin").write_bytes(bytes([number]) * SIZE)
    return [str(path) for path in sorted(tmp_path.glob("*.bin"))]


def told(monkeypatch: pytest.MonkeyPatch, **request: Any) -> list[dict[str, Any]]:
    """What the probe says to a request, in short slices."""
    monkeypatch.setattr(reads, "SLICE_S", 0.05)
    rows: list[dict[str, Any]] = []
    usual = {"whole": False, "direct": False, "now": 1, "size": SIZE, "depths": [1, 2], "chunk": 8 * SIZE}
    reads.main({**usual, **request}, lambda **row: rows.append(row))
    return rows


def test_small_files_are_read_one_by_one_from_memory_and_packed(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = tmp_path / "room"
    room.mkdir()
    rows = told(monkeypatch, paths=files, whole=True, folder=str(room))
    found = [(row["subject"], row["variant"], row["depth"]) for row in rows]
    assert found == [("file", "cold", 1), ("file", "cold", 2), ("file", "memory", 1), ("file", "packed", 1)]
    assert all(row["seconds"] >= row["cpu_s"] > 0 and row["repeats"] > 0 for row in rows)
    assert all(row["size_bytes"] == pytest.approx(SIZE, rel=0.05) for row in rows)
    assert list(room.iterdir()) == []
    assert [Path(file).read_bytes() for file in files][3] == bytes([int(Path(files[3]).stem)]) * SIZE


def test_places_of_a_large_file_are_read_in_the_size_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large").write_bytes(b"x" * (4 << 20))
    rows = told(monkeypatch, paths=[str(tmp_path / "large")], folder=str(tmp_path))
    assert {row["variant"] for row in rows} == {"cold", "memory"}
    assert all(row["size_bytes"] == pytest.approx(SIZE, rel=0.05) for row in rows)


def test_what_is_no_plain_file_is_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    paths = [str(tmp_path / "pipe"), str(tmp_path), "/dev/zero", str(tmp_path / "gone"), "a\0b"]
    assert told(monkeypatch, paths=paths, folder=str(tmp_path)) == []


def test_a_file_that_goes_away_meanwhile_costs_its_rows_only(
    files: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def gone(_: int, of: int) -> Iterator[Any]:
        yield (lambda: None), Path("/no/such/file").read_bytes

    assert reads.side_by_side(gone, 2, 0.01) is None
