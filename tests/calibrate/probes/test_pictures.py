"""Pictures are decoded by what is there, and re-encoded only in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.calibrate.probes import pictures

np = pytest.importorskip("numpy")
Image = pytest.importorskip("PIL.Image")


def told(paths: list[Path], used: str = "PIL", side: int = 0) -> dict[str, dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    request = {"paths": [str(path) for path in paths], "used": used, "side": side}
    pictures.main(request, lambda **row: rows.append(row))
    return {row["variant"]: row for row in rows}


def painted(folder: Path, suffix: str, count: int = 4) -> list[Path]:
    chance = np.random.default_rng(0)
    paths = [folder / f"{number}{suffix}" for number in range(count)]
    for path in paths:
        coarse = Image.fromarray(chance.integers(0, 255, (64, 64, 3)).astype("uint8"))
        coarse.resize((512, 512)).save(path)
    return paths


def test_png_is_dearer_than_the_same_pixels_stored_as_jpeg_or_raw(tmp_path: Path) -> None:
    rows = told(painted(tmp_path, ".png"))
    assert rows["stored raw"]["cpu_s"] < rows["stored as JPEG"]["cpu_s"] < rows["PIL"]["cpu_s"]
    assert rows["stored raw"]["size_bytes"] == pytest.approx(512 * 512 * 3, rel=0.01)
    assert "PIL half" not in rows


def test_jpeg_decodes_faster_at_half_its_size(tmp_path: Path) -> None:
    rows = told(painted(tmp_path, ".jpg"))
    assert rows["PIL half"]["cpu_s"] < rows["PIL"]["cpu_s"]
    assert "stored as JPEG" not in rows


def test_large_pictures_are_timed_as_they_are_made_small_and_as_if_they_were_stored_so(
    tmp_path: Path,
) -> None:
    paths = painted(tmp_path, ".jpg")
    rows = told(paths, side=64)
    assert rows["stored small"]["cpu_s"] < rows["drafted"]["cpu_s"] < rows["resized"]["cpu_s"]
    assert rows["stored small"]["size_bytes"] < rows["resized"]["size_bytes"] / 3
    assert "resized" not in told(paths, side=400)  # hardly smaller
    assert "resized" not in told(paths)  # nobody knows how large samples are


def test_asked_shortly_it_decodes_fewer_pictures(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    paths = [str(path) for path in painted(tmp_path, ".jpg", count=20)]
    pictures.main({"paths": paths, "used": "PIL", "short": True}, lambda **row: rows.append(row))
    assert [row["variant"] for row in rows[:2]] == ["PIL", "stored raw"]
    assert 0 < rows[0]["repeats"] <= 16


def test_files_that_are_no_pictures_leave_nothing_to_say(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"not a picture")
    assert told([tmp_path / "a.jpg", tmp_path / "gone.jpg"]) == {}


def test_a_decoder_that_stumbles_over_one_picture_is_left_out(tmp_path: Path) -> None:
    rows: list[str] = []
    pictures._tell(lambda **row: rows.append(row["variant"]), "weak", _weak, [b"a", b"b"])
    assert rows == []


def _weak(data: bytes) -> object:
    if data == b"b":
        raise ValueError
    return data
