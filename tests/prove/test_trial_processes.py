"""Shared memory is removed only where a process of the trial had or made it and no living process has it."""

import mmap
import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bottleneck_doctor.prove.trial_processes import SHM, HeldResources, blocks, mapped_blocks, remove_blocks

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
    everything = {path.name for path in tmp_path.iterdir()}
    remove_blocks(before, resources, tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert everything - left == {"psm_ours", "sem.mp-ours", f"torch_{DEAD}_2_0"}


def test_a_scripts_own_files_stay_though_the_trial_had_them_open(tmp_path: Path) -> None:
    remove_blocks((), HeldResources(blocks=made(tmp_path, "my_cache.bin", "torch_extensions")), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.fixture
def block() -> Iterator[Path]:
    """A block in the real place, where alone it is known who holds what."""
    path = Path(SHM) / f"psm_test-{os.getpid()}"
    path.write_bytes(b"x" * 64)
    yield path
    path.unlink(missing_ok=True)


def test_a_block_that_a_process_has_mapped_stays_until_it_is_let_go(block: Path) -> None:
    before = blocks().keys() - {block.stat().st_ino}
    with block.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    held = HeldResources()
    held.note([os.getpid()])
    remove_blocks(before, held)
    assert block.exists()
    mapped.close()
    remove_blocks(before, held)
    assert not block.exists()


def test_a_semaphore_is_known_to_whom_it_belongs_though_its_maker_maps_it_under_another_name() -> None:
    before = blocks()
    lock = multiprocessing.get_context("spawn").Lock()
    mine = mapped_blocks(os.getpid())
    fresh = {inode for inode in blocks() if inode not in before}
    assert mine & fresh
    del lock
