"""The run folder: private to the user, gone when the run is over, and never a reason not to train."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ..agent.wire import is_ours
from .signals import deferred, unwinding

# What one process of the agent reserves at least; a place with less room is not used.
_PROBE_BYTES = 1 << 20
PREFIX = ".bdoc-run-"


@dataclass(frozen=True)
class RunFolder:
    """The folder where the agent writes; ``path`` is None when no folder could be made, for ``reason``."""

    path: str | None
    reason: str = ""


@contextmanager
def run_folder(places: Sequence[str] | None = None) -> Iterator[RunFolder]:
    """A run folder for the time of the block. Signals that would end us there unwind it first."""
    made = RunFolder(None)
    with unwinding():
        try:
            with deferred():
                made = create(places)
            yield made
        finally:
            with deferred():
                if made.path is not None:  # a process that outlives the run keeps what it has mapped
                    shutil.rmtree(made.path, ignore_errors=True)


def create(places: Sequence[str] | None = None) -> RunFolder:
    """A new folder (0700) in the first place that has room: TMPDIR, the system's, memory, here."""
    refusals = []
    for place in usual_places() if places is None else places:
        try:
            return RunFolder(_made_in(place))
        except OSError as error:
            refusals.append(f"{place}: {error.strerror or error}")
    tried = "; ".join(refusals)
    return RunFolder(None, f"no place for the run folder ({tried}); set TMPDIR to a writable folder")


def usual_places() -> list[str]:
    """Candidates in order of preference, each once."""
    asked = os.environ.get("TMPDIR")
    places = [asked] if asked else []
    return list(dict.fromkeys([*places, "/tmp", "/var/tmp", "/dev/shm", os.curdir]))


def _made_in(place: str) -> str:
    path = tempfile.mkdtemp(prefix=PREFIX, dir=os.path.abspath(place))
    try:
        if not is_ours(path) or os.lstat(path).st_mode & 0o077:
            raise OSError("its file system does not keep owners and modes")
        _reserve(os.path.join(path, "probe"))
    except OSError:
        shutil.rmtree(path, ignore_errors=True)
        raise
    return path


def _reserve(path: str) -> None:
    """Take real blocks and give them back: a full disk still lets folders be made."""
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.posix_fallocate(file, 0, _PROBE_BYTES)
    finally:
        os.close(file)
        os.unlink(path)
