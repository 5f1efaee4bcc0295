"""Batches of the measured shape go through a real worker's pipe."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.calibrate.calibrate import ask

pytest.importorskip("torch")


def told(folder: Path, **request: Any) -> dict[tuple[str, str], dict[str, Any]]:
    usual = {"tensors": 0.0, "tensor_bytes": 0.0, "other_bytes": 0.0, "workers": 1}
    answer = ask(sys.executable, "moving", {**usual, **request}, str(folder), 60.0)
    assert answer.problem == ""
    return {(row["subject"], row["variant"]): row for row in answer.rows}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.alone
def test_one_packed_tensor_moves_faster_than_many(tmp_path: Path) -> None:
    rows = told(tmp_path, tensors=200.0, tensor_bytes=3e5)
    assert {variant for _, variant in rows} == {"now", "packed", "by name"}
    assert rows["moving", "packed"]["seconds"] < 0.3 * rows["moving", "now"]["seconds"]
    assert rows["moving", "by name"]["cpu_s"] < rows["moving", "now"]["cpu_s"]
    assert rows["using", "packed"]["cpu_s"] < rows["using", "now"]["cpu_s"]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.alone
def test_arrays_move_faster_as_tensors(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    ratios = []
    for _ in range(3):  # ten megabytes through a pipe take one of two times, by the whim of the machine
        rows = told(tmp_path, other_bytes=1e7)
        ratios.append(rows["moving", "as tensors"]["seconds"] / rows["moving", "now"]["seconds"])
    assert min(ratios) < 0.7


def test_a_batch_larger_than_memory_allows_is_not_made(tmp_path: Path) -> None:
    assert told(tmp_path, tensors=100.0, tensor_bytes=1e12) == {}
