"""Folders of sockets are removed only where they appeared since and nobody listens in them."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bottleneck_doctor.prove import sockets


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A TMPDIR with a short name: sockets have room for a hundred letters."""
    with tempfile.TemporaryDirectory(prefix="bdoc-test-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


def bound(places: Path, name: str) -> tuple[Path, socket.socket]:
    folder = places / f"pymp-{name}"
    folder.mkdir()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "listener-x"))
    listener.listen()
    return folder, listener


def test_the_dead_are_removed_and_the_living_stay(places: Path) -> None:
    old, listener = bound(places, "old")
    listener.close()
    before = sockets.found()
    dead, listener = bound(places, "dead")
    listener.close()
    alive, listener = bound(places, "alive")
    try:
        assert sockets.sweep(before) == [str(dead)]
    finally:
        listener.close()
    assert (old.exists(), dead.exists(), alive.exists()) == (True, False, True)


def test_a_folder_that_is_empty_or_holds_anything_else_stays(places: Path) -> None:
    before = sockets.found()
    (places / "pymp-empty").mkdir()
    mixed, listener = bound(places, "mixed")
    listener.close()
    (mixed / "arena").touch()
    assert sockets.sweep(before) == []
