"""A run says that it is there, who it is, and how it ended; strangers' folders are not believed."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from bottleneck_doctor.launch import run_registry
from bottleneck_doctor.model.run import Announcement, Ending, Lifetime

SAID = Announcement(Lifetime(7, 9), "here", ["python", "a.py"], "a.py", "/", "now", 5, "/p.json")


def test_what_was_announced_is_read_and_private(tmp_path: Path) -> None:
    run_registry.announce(tmp_path, SAID)
    assert run_registry.read_announcement(tmp_path) == SAID
    assert stat.S_IMODE((tmp_path / "run.json").stat().st_mode) == 0o600


def test_the_end_reaches_whoever_held_it_open_though_the_folder_is_gone(tmp_path: Path) -> None:
    run_registry.announce(tmp_path, SAID)
    handle = run_registry.hold_ending(tmp_path)
    assert handle is not None
    assert run_registry.read_ending(handle) is None
    run_registry.announce_end(tmp_path, Ending(3, None, "max-steps"))
    for path in tmp_path.iterdir():
        path.unlink()
    assert run_registry.read_ending(handle) == Ending(3, None, "max-steps")
    os.close(handle)


def test_a_second_announcement_keeps_the_end_that_others_hold(tmp_path: Path) -> None:
    run_registry.announce(tmp_path, SAID)
    handle = run_registry.hold_ending(tmp_path)
    assert handle is not None
    run_registry.announce(tmp_path, SAID)
    run_registry.announce_end(tmp_path, Ending(0))
    assert run_registry.read_ending(handle) == Ending(0)
    os.close(handle)


@pytest.mark.parametrize("text", [b"", b"{", b'{"supervisor": 3}', b"\0" * 100])
def test_a_malformed_announcement_is_none(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(text)
    assert run_registry.read_announcement(tmp_path) is None


def test_links_and_pipes_are_not_followed(tmp_path: Path) -> None:
    real, folder = tmp_path / "real", tmp_path / "folder"
    real.mkdir()
    run_registry.announce(real, SAID)
    (tmp_path / "link").symlink_to(real)
    assert run_registry.read_announcement(tmp_path / "link") is None
    folder.mkdir()
    (folder / "run.json").symlink_to(real / "run.json")
    assert run_registry.read_announcement(folder) is None
    (folder / "run.json").unlink()
    os.mkfifo(folder / "run.json")
    assert run_registry.read_announcement(folder) is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_strangers_folder_is_not_believed(tmp_path: Path) -> None:
    run_registry.announce(tmp_path, SAID)
    os.chown(tmp_path, 12345, -1)
    assert run_registry.read_announcement(tmp_path) is None


def test_nothing_raises_where_the_folder_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    run_registry.announce(gone, SAID)
    run_registry.announce_end(gone, Ending(0))
    assert run_registry.read_announcement(gone) is None
    assert run_registry.hold_ending(gone) is None


def test_a_process_is_told_from_its_successor_and_from_its_remains() -> None:
    ourselves = run_registry.lifetime(os.getpid())
    assert ourselves is not None
    assert ourselves == run_registry.lifetime(os.getpid())
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie, not yet collected
        assert run_registry.lifetime(process.pid) is None
    assert run_registry.lifetime(process.pid) is None
