"""Where one trial keeps its order, its log, its profile and its run folder: gone when it is over."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..launch import run_registry
from ..launch.folder import usual_places
from ..launch.run_registry import lives
from ..launch.signals import deferred
from ..model.errors import UsageError
from ..model.live import Lifetime
from .keeping import HIDDEN, WHERE

PREFIX = ".bdoc-prove-"
TAIL_BYTES = 65536
LOG_BYTES_AT_MOST = 16 << 20


@contextmanager
def place(put_back: Callable[[Path], bool]) -> Iterator[Path]:
    """A private folder for the time of the block; raises UsageError where none can be made.

    Its name says whose it is, so that what a killed bdoc left is told from what is in use. ``put_back`` is
    called before such a folder is removed, and says whether it may be: it may list files of the user's.
    """
    _sweep(put_back)
    with deferred():
        made = _made()
    try:
        yield made
    finally:
        with deferred():
            if put_back(made):
                shutil.rmtree(made, ignore_errors=True)


def tail(log: Path) -> list[str]:
    """The last lines of a log that are not empty; none when it cannot be read."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    return [line.strip() for line in text.replace("\r", "\n").split("\n") if line.strip()]


def keep_short(log: Path) -> None:
    """Empty a log that has grown too long; its writers append."""
    try:
        if os.stat(log).st_size > LOG_BYTES_AT_MOST:
            os.truncate(log, 0)
    except OSError:
        pass


def keep_only(folder: Path, *names: str) -> None:
    """Forget the trial that was carried out here, but for some files."""
    for path in [one for one in folder.iterdir() if one.name not in (*names, WHERE)]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _made() -> Path:
    ours = run_registry.lifetime(os.getpid()) or Lifetime(os.getpid(), 0)
    refusals = []
    for parent in usual_places():
        try:
            prefix = f"{PREFIX}{ours.pid}-{ours.began}-"
            made = Path(tempfile.mkdtemp(prefix=prefix, dir=os.path.abspath(parent)))
            (made / WHERE).write_text(run_registry.here(), encoding="utf-8")
            return made
        except OSError as error:
            refusals.append(f"{parent}: {error.strerror or error}")
    raise UsageError(f"no place to keep trials in ({'; '.join(refusals)}); set TMPDIR to a writable folder")


def _sweep(put_back: Callable[[Path], bool]) -> None:
    """Remove what killed ones left where such folders lie by themselves."""
    for parent in [one for one in usual_places() if one != os.curdir]:
        for found in Path(parent).glob(PREFIX + "*"):
            if _is_left_behind(found) and put_back(found):
                shutil.rmtree(found, ignore_errors=True)
    for found in Path().resolve().glob(HIDDEN + "*"):
        if _is_left_behind(found):
            put_back(found)


def _is_left_behind(folder: Path) -> bool:
    """Whether it is this user's, of this machine and container, and its owner is dead."""
    pid, began = (*folder.name.split("-")[2:4], "", "")[:2]
    try:
        ours = not folder.is_symlink() and os.lstat(folder).st_uid == os.getuid()
        here = ours and (folder / WHERE).read_text(encoding="utf-8") == run_registry.here()
    except (OSError, ValueError):
        return False
    return here and pid.isdigit() and began.isdigit() and not lives(Lifetime(int(pid), int(began)))
