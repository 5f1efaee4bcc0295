"""What other users leave in folders is neither obeyed, executed nor written to: settings, links, modules."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from bottleneck_doctor.commands.options import MAX_STEPS, read_settings
from bottleneck_doctor.commands.output import write
from bottleneck_doctor.model.codec import encode_profile, read_profile
from bottleneck_doctor.model.errors import UsageError
from tests.commands.running import PATIENCE_S, START
from tests.house.source import ROOT
from tests.model.profiles import PROFILE

DAEMON, SHARED, NOBODY = 1, 100, 65534
ME = (0, 0o644, 0, 0o755)  # of a file, then of its folder: owner and mode
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")


def lay(folder: Path, text: str = "[tool.bdoc]\nmax-steps = 7\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pyproject.toml"
    file.write_text(text)
    return file


# (owner and mode of the file, of its folder), the group of both, who reads, and what is said against it.
OWNERS = {
    "one's own": (ME, 0, 0, ""),
    "another's file": ((NOBODY, 0o644, 0, 0o755), 0, 0, "it belongs to user 65534"),
    "another's folder": ((0, 0o644, NOBODY, 0o755), 0, 0, "its folder belongs to user 65534"),
    "root's": (ME, 0, NOBODY, ""),
    "a file for all": ((0, 0o666, 0, 0o755), 0, 0, "may write to it;"),
    "a folder for all": ((0, 0o644, 0, 0o777), 0, 0, "may write to its folder;"),
    "a folder for temporary files": ((0, 0o644, 0, 0o1777), 0, 0, "to its folder; if you trust it, move it"),
    "a shared group's": ((DAEMON, 0o664, DAEMON, 0o775), SHARED, DAEMON, "may write to it;"),
    "a shared group's folder": ((DAEMON, 0o644, DAEMON, 0o2775), SHARED, DAEMON, "may write to its folder;"),
    "umask 002, a group of one's own": ((DAEMON, 0o664, DAEMON, 0o775), DAEMON, DAEMON, ""),
}


@needs_root
@pytest.mark.parametrize(("made", "group", "reader", "why"), OWNERS.values(), ids=OWNERS)
def test_settings_are_taken_from_files_that_nobody_else_can_write(
    made: tuple[int, int, int, int],
    group: int,
    reader: int,
    why: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = lay(folder / "shared")
    for path, owner, mode in ((file, *made[:2]), (file.parent, *made[2:])):
        os.chown(path, owner, group)
        path.chmod(mode)
    monkeypatch.setattr(os, "geteuid", lambda: reader)
    settings = read_settings(str(file.parent))
    assert settings.of(MAX_STEPS) == (None if why else 7)
    said = capsys.readouterr().err
    assert said.count("\n") == bool(why)
    assert why in said
    assert not why or said.startswith(f"bdoc: {file} is ignored: ")


@needs_root
def test_what_is_opened_is_what_is_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Links lead to the file that counts; pipes and folders of that name are none."""
    elsewhere = lay(folder / "elsewhere")
    for place in ("link", "pipe", "folder"):
        (folder / place).mkdir()
    (folder / "link" / "pyproject.toml").symlink_to(elsewhere)
    os.mkfifo(folder / "pipe" / "pyproject.toml")
    (folder / "folder" / "pyproject.toml").mkdir()
    found = [read_settings(str(folder / place)).of(MAX_STEPS) for place in ("link", "pipe", "folder")]
    assert found == [7, None, None]
    os.chown(elsewhere, NOBODY, NOBODY)
    assert read_settings(str(folder / "link")).of(MAX_STEPS) is None
    assert "it belongs to user 65534" in capsys.readouterr().err


# Where the script is, seen from the folder that has the settings; what ends the search; whether they count.
ENDS = {
    "beside": (".", "", True),
    "above": ("a/b", "", True),
    "a repository's root": ("a/b", ".git/", True),
    "above a repository": ("a/b", "a/.git/", False),
    "above a worktree or a submodule": ("a/b", "a/.git", False),
    "home": ("a/b", "~.", True),
    "above home": ("a/b", "~a", False),
}


@pytest.mark.parametrize(("where", "end", "counts"), ENDS.values(), ids=ENDS)
def test_the_search_ends_at_the_repository_or_at_home(
    where: str, end: str, counts: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = lay(folder / "top").parent
    (top / where).mkdir(parents=True, exist_ok=True)
    if end.startswith("~"):
        monkeypatch.setenv("HOME", str(top / end[1:]))
    elif end.endswith("/"):
        (top / end).mkdir()
    elif end:
        (top / end).write_text("gitdir: elsewhere\n")
    assert read_settings(str(top / where)).of(MAX_STEPS) == (7 if counts else None)


MARKED = "import os; open({!r}, 'w').close()\n"
HOSTILE = """
[tool.bdoc]
python = "{0}/evil"
output = "{0}/home/.bashrc"
export = ["prometheus:{0}/sent.prom"]
baseline = ["{0}/base.json"]
max-steps = 7
"""
COMMANDS = ["run train.py", "report", "env", "prove --dry-run --profile profile.json train.py"]


def laid_trap(place: Path, owner: int) -> Path:
    """A folder to stand in, whose parent and the settings in it are that owner's."""
    evil = place / "evil"
    evil.write_text(f'#!/bin/sh\ntouch {place}/executed\nexec python3 "$@"\n')
    (place / "home").mkdir()
    (place / "home" / ".bashrc").write_text("mine\n")
    (place / "base.json").write_text("{}")
    shared, mine = place / "shared", place / "shared" / "mine"
    lay(shared, HOSTILE.format(place))
    mine.mkdir()
    (mine / "train.py").write_text("print('trained')\n")
    (mine / "profile.json").write_bytes(encode_profile(PROFILE))
    evil.chmod(0o755)
    for path in (shared, shared / "pyproject.toml"):
        os.chown(path, owner, owner)
    return mine


def untouched(place: Path) -> bool:
    victim = (place / "home" / ".bashrc").read_text()
    return victim == "mine\n" and not {"executed", "sent.prom"} & set(os.listdir(place))


@needs_root
@pytest.mark.parametrize("line", COMMANDS)
def test_no_command_obeys_a_file_of_another_user_above_it(line: str, folder: Path) -> None:
    mine = laid_trap(folder, NOBODY)
    done = bdoc([sys.executable], mine, *line.split())
    assert untouched(folder)
    told = [one for one in done.stderr.splitlines() if "pyproject.toml" in one]
    assert told == [
        f"bdoc: {folder}/shared/pyproject.toml is ignored: it belongs to user 65534; if you trust it, `chown`"
        " it, or give its settings as options"
    ]
    assert ("trained" in done.stdout) is line.startswith("run")


def bdoc(python: list[str], cwd: Path, *line: str) -> subprocess.CompletedProcess[str]:
    start = f"import sys; sys.path[:] = filter(None, sys.path); {START}"
    return started([*python, "-c", start, *line], cwd)


def started(line: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "TMPDIR": "/tmp", "LANG": "C.UTF-8"}
    env["PYTHONPATH"] = f"{ROOT}{os.pathsep}{sysconfig.get_path('purelib')}"
    return subprocess.run(line, cwd=cwd, env=env, text=True, capture_output=True, timeout=PATIENCE_S)


@needs_root
def test_another_users_link_is_not_written_through(folder: Path) -> None:
    (folder / "mine").write_text("mine")
    for name, owner in (("theirs.json", NOBODY), ("own.json", 0)):
        (folder / name).symlink_to(folder / "mine")
        os.lchown(folder / name, owner, owner)
    with pytest.raises(UsageError, match=r"^cannot write 'theirs.json': it is another user's link;"):
        write("theirs.json", b"x")
    assert (folder / "mine").read_text() == "mine"
    write("own.json", b"x")
    assert (folder / "mine").read_text() == "x"


@pytest.mark.parametrize("line", ["env", "fleet ."])
def test_modules_that_lie_where_one_stands_are_not_run(line: str, folder: Path) -> None:
    for name in ("platform", "ctypes", "multiprocessing", "importlib", "json", "duckdb"):
        (folder / f"{name}.py").write_text(MARKED.format(str(folder / "executed")))
    (folder / "profile.json").write_bytes(encode_profile(PROFILE))
    done = bdoc([sys.executable], folder, *line.split())
    assert (done.returncode, (folder / "executed").exists()) == (0, False), done.stderr


@needs_root
def test_watch_says_in_its_report_which_file_it_ignored(folder: Path) -> None:
    mine = laid_trap(folder, NOBODY)
    block = "from bottleneck_doctor import watch\nwith watch() as w:\n    pass\nprint(w.path)"
    done = started([sys.executable, "-c", block], mine)
    assert (done.stderr, untouched(folder)) == ("", True)
    gaps = {gap.what: gap.why for gap in read_profile(done.stdout.strip()).gaps}
    assert "shared/pyproject.toml is ignored: it belongs to user 65534;" in gaps["settings"]
