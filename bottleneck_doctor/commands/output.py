"""Where results go (stdout, stderr, a file replaced at once), and the reports that are printed.

A reader who went away is not an error.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from ..model.errors import UsageError

if TYPE_CHECKING:
    from ..model.picture import Picture
    from ..model.profile import Profile
    from ..model.report import Report


DEFAULT_WIDTH = 80


@dataclass(frozen=True)
class Screen:
    """What a stream can show."""

    width: int
    color: bool
    encoding: str


def screen(stream: TextIO) -> Screen:
    """The stream's size, colours and encoding; NO_COLOR, FORCE_COLOR, TERM and COLUMNS are respected."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    color = not os.environ.get("NO_COLOR") and (
        bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")
    )
    columns, width = os.environ.get("COLUMNS", ""), 0
    if columns.isascii() and columns.isdigit():
        width = int(columns)
    with suppress(OSError, ValueError):
        width = width or os.get_terminal_size(stream.fileno()).columns
    return Screen(width or DEFAULT_WIDTH, color, encoding)


def say(text: str, encoding: str = "") -> None:
    """Write to stdout. The reader of a pipe may leave early: ``bdoc report | head`` is fine."""
    data = text.encode(encoding or getattr(sys.stdout, "encoding", None) or "utf-8", "backslashreplace")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Python flushes stdout once more at exit, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as problem:
        raise UsageError(f"cannot write to stdout: {problem.strerror}") from None


def complain(line: str) -> None:
    """One line to stderr, whatever is in it."""
    from ..render.words import plain

    if sys.stderr is None:  # print would take stdout instead, and that is the training's
        return
    with suppress(OSError):  # stderr is closed
        print(f"bdoc: {plain(line)}", file=sys.stderr, flush=True)


class StatusLine:
    """A line of stderr that is drawn anew in place; afterwards the terminal is as it was."""

    def __init__(self) -> None:
        self._shown = False

    def draw(self, text: str) -> None:
        """Show this instead of what stood there."""
        self.say(f"\r\x1b[2K{text}")
        self._shown = True

    def clear(self) -> None:
        """Leave the terminal as it was."""
        if self._shown:
            self.say("\r\x1b[2K")
            self._shown = False

    def say(self, text: str) -> None:
        """Write a line that stays; a closed or failing stderr is ignored."""
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(text)
            sys.stderr.flush()


def write(path: str, data: bytes, option: str = "--output", *, private: bool = False) -> None:
    """Replace the file at once, so that no reader ever gets half of it; links, modes and devices are kept. A
    new file that is ``private`` is its owner's alone: names of files and lines of scripts are in a profile.

    Raises ``UsageError`` where that cannot be done; ``option`` is what chooses another place.
    """
    try:
        if os.path.islink(path) and os.lstat(path).st_uid not in (0, os.geteuid()):
            raise PermissionError(None, "it is another user's link")  # to any file of this user's
        target = os.path.realpath(path)
        if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "wb") as device:  # a pipe behind /dev/stdout has no real path
                device.write(data)
        else:
            _replace(target, data, private)
    except (OSError, ValueError) as problem:
        raise _unwritten(path, problem, option) from None


def _unwritten(path: str, problem: Exception, option: str) -> UsageError:
    why = getattr(problem, "strerror", None) or problem
    return UsageError(f"cannot write {path!r}: {why}; choose another place with {option}")


def append(path: str, text: str, option: str) -> None:
    """Add to the end of a file that others write to as well."""
    try:
        with open(path, "ab") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
    except (OSError, ValueError) as problem:
        raise _unwritten(path, problem, option) from None


def writable(path: str, option: str) -> str:
    """The path. Refuses one that cannot be written to before any work is done; leaves no file behind."""
    if not path or "\0" in path:
        raise UsageError(f"{option} {path!r}: not a name of a file")
    folder, why = os.path.dirname(os.path.realpath(path)), ""
    if os.path.isdir(path):
        why = "it is a folder"
    elif os.path.exists(path):
        why = "" if os.access(path, os.W_OK) else "this user may not write to it"
    elif not os.path.isdir(folder):
        why = "there is no such folder"
    else:
        import tempfile  # 5 ms that `bdoc --help` need not pay

        try:  # of root os.access says that it may write anywhere, also in /proc and on read-only file systems
            tempfile.TemporaryFile(prefix=".bdoc-", dir=folder).close()
        except OSError as problem:
            why = f"no file can be made in its folder: {problem.strerror}"
    if why:
        raise UsageError(f"{option} {path!r}: {why}")
    return path


def with_folder(path: str, option: str) -> str:
    """As ``writable``, for what is written after long work: its folder is made, if it can be."""
    with suppress(OSError, ValueError):
        os.makedirs(os.path.dirname(os.path.realpath(path)), exist_ok=True)
    return writable(path, option)


def _replace(target: str, data: bytes, private: bool) -> None:
    import tempfile  # 5 ms that `bdoc --help` need not pay

    os.umask(mask := os.umask(0))  # it can be read only by setting it
    new = 0o600 if private else 0o666 & ~mask
    mode = stat.S_IMODE(os.stat(target).st_mode) if os.path.exists(target) else new
    handle, draft = tempfile.mkstemp(prefix=".bdoc-", dir=os.path.dirname(target))
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(draft, mode)
        os.replace(draft, target)
    except BaseException:
        os.unlink(draft)
        raise


def report_of(path: str) -> Report:
    """The report that this version draws from the profile at ``path``."""
    from ..model.codec import read_profile

    profile = read_profile(path)
    from ..findings.report import write_up

    return write_up(profile)


def with_picture(profile: Profile) -> tuple[Report, Picture]:
    """The report, and what is drawn of it."""
    from ..analyse.diagnose import diagnose
    from ..analyse.timeline import picture_of
    from ..findings.report import write_up

    diagnosis = diagnose(profile)
    return write_up(profile, diagnosis), picture_of(diagnosis)
