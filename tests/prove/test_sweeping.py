"""Shared memory and sockets go only where a trial's process held or made them and nobody has them now."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bottleneck_doctor.prove.trial_processes import (
    SHM,
    HeldResources,
    blocks,
    held_blocks,
    remove_blocks,
    remove_folders,
)

DEAD = 4_194_304  # above the largest pid that Linux gives


def made(folder: Path, *names: str) -> set[int]:
    """Blocks that nobody has open: their inodes."""
    for name in names:
        (folder / name).write_bytes(b"x" * 64)
    return {(folder / name).stat().st_ino for name in names}


def test_only_what_appeared_since_and_was_the_trials_goes(tmp_path: Path) -> None:
    old = made(tmp_path, "psm_old", f"torch_{DEAD}_1_0")
    before = blocks(tmp_path)
    assert before.keys() == old
    ours = made(tmp_path, "psm_ours", "sem.mp-ours")
    made(tmp_path, "psm_strangers", f"torch_{DEAD + 1}_1_0", f"torch_{DEAD}_2_0")
    resources = HeldResources(pids={DEAD}, blocks=old | ours)
    assert remove_blocks(before, resources, tmp_path) == ["psm_ours", "sem.mp-ours", f"torch_{DEAD}_2_0"]


def test_a_scripts_own_files_stay_though_the_trial_had_them_open(tmp_path: Path) -> None:
    inodes = made(tmp_path, "my_cache.bin", "torch_extensions")
    assert remove_blocks((), HeldResources(blocks=inodes), tmp_path) == []


def test_a_block_whose_maker_lives_stays(tmp_path: Path) -> None:
    made(tmp_path, f"torch_{os.getpid()}_1_0")
    assert remove_blocks((), HeldResources(pids={os.getpid()}), tmp_path) == []


@pytest.fixture
def block() -> Iterator[Path]:
    """A block in the real place, where alone it is known who holds what."""
    path = Path(SHM) / f"psm_test-{os.getpid()}"
    path.write_bytes(b"x" * 64)
    yield path
    path.unlink(missing_ok=True)


def test_a_block_that_somebody_has_open_or_mapped_stays_until_it_is_let_go(block: Path) -> None:
    before = blocks().keys() - {block.stat().st_ino}
    with block.open("rb") as file:
        resources = HeldResources()
        resources.note([os.getpid()])
        assert block.name not in remove_blocks(before, resources)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    assert block.name not in remove_blocks(before, resources)
    mapped.close()
    assert block.name in remove_blocks(before, resources)


def test_a_semaphore_is_known_to_whom_it_belongs_though_its_maker_maps_it_under_another_name() -> None:
    before = blocks()
    lock = multiprocessing.get_context("spawn").Lock()
    mine = held_blocks(os.getpid())
    fresh = {inode for inode in blocks() if inode not in before}
    assert mine & fresh
    del lock


def test_sockets_that_the_trial_had_bound_go_once_it_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="bdoc-test-") as place:  # a socket's path has a hundred letters
        folder = Path(place) / "pymp-ours"
        folder.mkdir()
        script = f"import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind({str(folder / 'l')!r}); "
        script += "print('bound', flush=True); sys.stdin.read()"
        with subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            resources = HeldResources()
            resources.note([holder.pid])
            assert resources.folders == {str(folder)}
            assert remove_folders(resources) == []
            holder.kill()
        (folder / "arena").touch()
        assert remove_folders(resources) == []
        (folder / "arena").unlink()
        assert remove_folders(resources) == [str(folder)]
        assert not folder.exists()


def test_a_strangers_sockets_are_not_noted() -> None:
    with tempfile.TemporaryDirectory(prefix="bdoc-test-") as place, socket.socket(socket.AF_UNIX) as mine:
        folder = Path(place) / "pymp-mine"
        folder.mkdir()
        mine.bind(str(folder / "l"))
        resources = HeldResources()
        resources.note([1])
        assert str(folder) not in resources.folders
