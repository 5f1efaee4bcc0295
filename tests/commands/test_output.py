"""Files are replaced at once, and stay what they were: links, modes, devices."""

import io
import os
import stat
import sys
from pathlib import Path

import pytest

from bottleneck_doctor.commands.output import StatusLine, append, screen, writable, write
from bottleneck_doctor.model.errors import UsageError


@pytest.mark.parametrize(
    ("old", "private", "mode"), [(None, False, 0o640), (None, True, 0o600), (0o604, False, 0o604)]
)
def test_a_new_file_has_the_usual_mode_a_profile_is_its_owners_and_an_old_one_keeps_its_own(
    old: int | None, private: bool, mode: int, folder: Path
) -> None:
    file = folder / "report.txt"
    if old is not None:
        file.write_bytes(b"old")
        file.chmod(old)
    before = os.umask(0o027)
    try:
        write("report.txt", b"new", private=private)
    finally:
        os.umask(before)
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", mode)


def test_a_link_stays_a_link(folder: Path) -> None:
    (folder / "there").mkdir()
    (folder / "link.txt").symlink_to("there/report.txt")
    write("link.txt", b"new")
    assert (folder / "link.txt").is_symlink()
    assert (folder / "there" / "report.txt").read_bytes() == b"new"


def test_a_device_is_written_to_and_never_replaced() -> None:
    write("/dev/null", b"new")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_failure_leaves_the_old_file_and_no_draft(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "report.txt").write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UsageError, match=r"cannot write 'report\.txt': No space left on device"):
        write("report.txt", b"new")
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {"report.txt": b"old"}


@pytest.mark.parametrize(
    ("terminal", "environment", "color"),
    [
        (True, {"TERM": "dumb"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (False, {"FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colours_are_for_terminals_unless_told_otherwise(
    terminal: bool, environment: dict[str, str], color: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TERM", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    stream.isatty = lambda: terminal  # type: ignore[method-assign]
    assert screen(stream).color is color


@pytest.mark.parametrize(("columns", "width"), [("33", 33), ("0", 80), ("²", 80)])
def test_the_width_is_the_one_asked_for(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert screen(io.StringIO()).width == width


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "not a name"),
        ("a\0b", "not a name"),
        (".", "is a folder"),
        ("no/such/file", "no such folder"),
        ("/proc/x", "no file can be made in its folder"),  # os.access says that root may
    ],
)
def test_a_place_that_cannot_be_written_to_is_refused_by_its_option(
    path: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=f"^--junit .*{why}"):
        writable(path, "--junit")


def test_what_is_appended_stands_behind_what_is_there(tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    for text in ("a\n", "b\udce9\n"):
        append(str(file), text, "--summary")
    assert file.read_bytes() == b"a\nb\\udce9\n"
    with pytest.raises(UsageError, match="choose another place with --summary"):
        append(str(tmp_path), "c", "--summary")


def test_a_status_line_is_taken_back_and_its_terminal_may_go_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, line = io.StringIO(), StatusLine()
    monkeypatch.setattr(sys, "stderr", terminal)
    line.draw("reading")
    line.clear()
    assert terminal.getvalue() == "\r\x1b[2Kreading\r\x1b[2K"
    terminal.close()
    line.say("x")
