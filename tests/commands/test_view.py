"""``bdoc view`` shows what there is where somebody can see it, and says what there is not."""

import cProfile
import sys
import webbrowser
from dataclasses import replace
from pathlib import Path

import pytest

from bottleneck_doctor.commands import report as view
from bottleneck_doctor.commands.app import main
from bottleneck_doctor.model.codec import encode_profile
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.profile import Profile
from tests.model.profiles import PROFILE

SAMPLED = replace(
    PROFILE, stacks=[Stack(10, "trainer", "MainThread", ["main (/home/ann/train.py:9)"], 40, 3)]
)
ATTACK = "</script><script>alert(7)</script>"
DESK = {"DISPLAY": ":0"}
AWAY = ("CI", "SSH_CONNECTION", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[str]:
    """What a browser was asked to show, by somebody who sits at a desk."""
    shown: list[str] = []
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr(view, "has_browser", lambda: True)
    monkeypatch.setattr(webbrowser, "open", lambda url, new=0: shown.append(url) or True)
    return shown


def saved(folder: Path, profile: Profile, name: str = "profile.json") -> str:
    (folder / name).write_bytes(encode_profile(profile))
    return name


def test_the_report_is_written_where_only_its_owner_looks_and_shown(
    opened: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(folder, PROFILE)
    assert main(["view"]) == 0
    (path,) = map(Path, capsys.readouterr().out.splitlines())
    assert opened == [path.as_uri()]
    assert path.read_text().startswith("<!doctype html>")
    assert path.parent.parent == folder
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_without_a_browser_the_path_is_printed_and_nothing_else(
    opened: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(folder, SAMPLED, "a.json")
    assert main(["view", "a.json", "--no-browser", "-o", "page.html"]) == 0
    assert tuple(capsys.readouterr()) == (f"{folder}/page.html\n", "")
    assert opened == []
    assert 'data-figure="stacks-trainer"' in (folder / "page.html").read_text()


@pytest.mark.parametrize(
    ("environ", "terminal", "seen"),
    [
        (DESK, True, True),
        (DESK, False, False),
        (DESK | {"CI": "true"}, True, False),
        (DESK | {"SSH_CONNECTION": "10.0.0.1 22"}, True, False),
        ({}, True, False),
    ],
)
def test_browsers_are_for_people_who_sit_here(
    environ: dict[str, str], terminal: bool, seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in AWAY:
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.setattr(webbrowser, "get", lambda: None)
    assert view.has_browser() is seen


REFUSED = {
    "no times": (["--cprofile"], "no profile.prof next to profile.json: `bdoc run --cprofile SCRIPT` leaves"),
    "a folder": (["folder.prof"], "Is a directory"),
    "a trap": (["trap.prof"], "is not a file of cProfile's"),
}


@pytest.mark.parametrize(("line", "why"), REFUSED.values(), ids=REFUSED)
def test_what_there_is_not_is_said_in_one_line_with_what_gets_it(
    line: list[str], why: str, opened: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(folder, PROFILE)
    (folder / "folder.prof").mkdir()
    (folder / "trap.prof").write_bytes(b"[\xff\xff\xff\x7f" * 9)  # lists of two thousand million, nested
    assert main(["view", *line]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert why in err
    assert opened == []


def test_times_are_a_page_in_a_file_that_asks_for_nothing(
    opened: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is drawn in it, tests/render/test_cprofile_in_browser.py checks."""
    profiler = cProfile.Profile()
    profiler.runcall(sorted, range(10))
    profiler.runcall(eval, compile("(lambda: 1)()", f"{ATTACK}.py", "eval"))
    profiler.dump_stats(folder / "profile.prof")
    saved(folder, PROFILE)
    (folder / "snakeviz.py").write_text("raise SystemExit('a file of the same name was taken for snakeviz')")
    assert main(["view", "--cprofile"]) == 0
    (path,) = map(Path, capsys.readouterr().out.splitlines())
    assert opened == [path.as_uri()]
    assert path.parent.stat().st_mode & 0o777 == 0o700
    page = path.read_text()
    assert "sorted" in page
    assert ATTACK not in page
    assert page.index("Content-Security-Policy") < page.index("<script")
    assert main(["view", "profile.prof", "--no-browser", "-o", "times.html"]) == 0
    assert (folder / "times.html").read_text() == page
