"""Shared memory is removed only where it appeared since, is of a known kind, and nobody has or made it."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from bottleneck_doctor.prove import blocks

DEAD = 4_194_304  # above the largest pid that Linux gives


def made(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_bytes(b"x" * 64)


@pytest.fixture
def before(tmp_path: Path) -> frozenset[str]:
    """What a stranger left long ago."""
    made(tmp_path, "psm_old", f"torch_{DEAD}_1_0", "sem.old")
    return blocks.found(tmp_path)


def test_what_was_there_before_stays(tmp_path: Path, before: frozenset[str]) -> None:
    assert blocks.sweep(before, tmp_path) == []
    assert blocks.found(tmp_path) == before


def test_what_killed_processes_left_goes(tmp_path: Path, before: frozenset[str]) -> None:
    fresh = ["psm_1a2b", "sem.mp-x", f"torch_{DEAD}_9_9", f"__KMP_REGISTERED_LIB_{DEAD}_0"]
    made(tmp_path, *fresh)
    assert blocks.sweep(before, tmp_path) == sorted(fresh)
    assert blocks.found(tmp_path) == before


def test_a_scripts_own_files_stay_and_so_do_folders(tmp_path: Path, before: frozenset[str]) -> None:
    made(tmp_path, "my_cache.bin", "torch_extensions")
    (tmp_path / "psm_folder").mkdir()
    assert blocks.sweep(before, tmp_path) == []


def test_a_block_whose_maker_lives_stays(tmp_path: Path, before: frozenset[str]) -> None:
    made(tmp_path, f"torch_{os.getpid()}_1_0")
    assert blocks.sweep(before, tmp_path) == []


def test_a_block_that_somebody_has_open_stays_until_it_is_closed(
    tmp_path: Path, before: frozenset[str]
) -> None:
    made(tmp_path, "psm_open")
    with (tmp_path / "psm_open").open("rb"):
        assert blocks.sweep(before, tmp_path) == []
    assert blocks.sweep(before, tmp_path) == ["psm_open"]


def test_a_block_that_somebody_has_mapped_stays(tmp_path: Path, before: frozenset[str]) -> None:
    import mmap

    made(tmp_path, "psm_mapped")
    with (tmp_path / "psm_mapped").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    assert blocks.sweep(before, tmp_path) == []
    mapped.close()


def test_a_semaphore_of_a_living_process_stays() -> None:
    before = blocks.found()
    lock = multiprocessing.get_context("spawn").Lock()
    mine = "sem." + lock._semlock.name.lstrip("/")  # type: ignore[attr-defined]
    assert mine in blocks.found()
    assert mine not in blocks.sweep(before)
    assert mine in blocks.found()


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert blocks.found(tmp_path / "nowhere") == frozenset()
