"""A trial leaves the user's files as they were, however it ends; what cannot be put back is told."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.launch import run_registry
from bottleneck_doctor.model.run import Order
from bottleneck_doctor.prove.put_back_files import HIDDEN, LIST, WHERE, Backups
from bottleneck_doctor.prove.trial_limits import Limits
from bottleneck_doctor.prove.trials import PREFIX, Target, run_trial, trial_folder

SCRIPT = Path(__file__).with_name("broken") / "overwrites.py"
NAMES = "best.pt metrics.json atomic.pt last.pt previous.pt doomed.txt out/deep/a.txt train.log runs/1.txt"
DEAD = 4_194_304  # above the largest pid that Linux gives


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the script stands, apart from where its trials lie."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path / "home"


def written(folder: Path, *lines: dict[str, Any]) -> Path:
    (folder / LIST).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def linked(home: Path, name: str, kept: str, data: str) -> dict[str, Any]:
    """The line of a file that was put aside, with that content."""
    hidden = home / f"{HIDDEN}x"
    hidden.mkdir(exist_ok=True)
    (hidden / kept).write_text(data)
    return {"what": "linked", "path": str(home / name), "kept": str(hidden / kept), "file": [0, 0]}


def seen(home: Path) -> dict[str, tuple[bytes, int, int]]:
    files = [path for path in home.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(home)): (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
        for path in files
    }


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "outcome"), [("", "measured"), ("killed", "broke")])
def test_every_file_that_was_there_is_as_it_was_after_a_trial(home: Path, ending: str, outcome: str) -> None:
    for name in NAMES.split():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() * 50)
        os.utime(path, (1e9, 1e9))
        path.chmod(0o640)
    os.symlink("best.pt", "newest")
    before, backups = seen(home), Backups()
    found = run_trial(Target(script=str(SCRIPT), args=(ending,)), Order(), Limits(20, 60.0), backups=backups)
    assert found.outcome == outcome, found.why
    after = seen(home)
    assert after.pop("made.txt")[0] == b"newer"
    assert after == before
    assert os.readlink("newest") == "best.pt"
    assert sorted(os.listdir()) == sorted(
        {"made.txt", "newest", *(name.split("/")[0] for name in before)} - {""}
    )
    [told] = backups.restored()
    assert told.startswith("put back after the trials: atomic.pt and ")
    assert backups.failures() == []


def test_the_last_that_was_put_aside_is_put_back_first(home: Path, tmp_path: Path) -> None:
    (home / "best.pt").write_text("worthless")
    lines = linked(home, "best.pt", "1-1", "the user's"), linked(home, "best.pt", "1-2", "the trial's")
    folder = written(tmp_path, *lines)
    backups = Backups()
    assert backups.put_back(folder)
    assert (home / "best.pt").read_text() == "the user's"
    assert os.listdir() == ["best.pt"]
    assert backups.restored() == ["put back after the trials: best.pt, which the script had overwritten"]
    assert backups.put_back(folder)  # a second time changes nothing
    assert (home / "best.pt").read_text() == "the user's"


def test_what_cannot_be_put_back_is_told_and_stays_where_it_lies(home: Path, tmp_path: Path) -> None:
    (home / "best.pt").mkdir()  # the script has made a folder of that name
    line = linked(home, "best.pt", "1-1", "the user's")
    backups = Backups()
    assert not backups.put_back(written(tmp_path, line))
    assert Path(line["kept"]).read_text() == "the user's"
    [told] = backups.failures()
    assert told == f"not put back: best.pt; what it was lies in {line['kept']} (Is a directory)"
    (home / "best.pt").rmdir()
    assert backups.put_back(tmp_path)
    assert (home / "best.pt").read_text() == "the user's"


def test_a_file_changed_in_place_stays_the_same_file_and_one_that_was_not_is_not_mentioned(
    home: Path, tmp_path: Path
) -> None:
    lines = []
    for name, now in [("train.log", "old and worthless"), ("lock", "old")]:
        (home / name).write_text(now)
        found = (home / name).stat()
        file = [found.st_dev, found.st_ino]
        lines.append({**linked(home, name, name, "old"), "what": "copied", "file": file})
    backups = Backups()
    assert backups.put_back(written(tmp_path, *lines))
    assert [(home / name).read_text() for name in ("train.log", "lock")] == ["old", "old"]
    assert (home / "train.log").stat().st_ino == lines[0]["file"][1]
    assert list(backups.back) == [str(home / "train.log")]


def test_what_a_killed_bdoc_put_aside_is_put_back_by_the_next(home: Path, tmp_path: Path) -> None:
    (home / "best.pt").write_text("worthless")
    stale = tmp_path / "tmp" / f"{PREFIX}{DEAD}-1-x"
    stale.mkdir()
    (stale / WHERE).write_text(run_registry.machine_here())
    written(stale, linked(home, "best.pt", "1-1", "the user's"))
    with (stale / LIST).open("a") as file:
        file.write('{"what": "moved", "pa')  # where it was killed
    with trial_folder(Backups().put_back):
        assert (home / "best.pt").read_text() == "the user's"
        assert not stale.exists()
    assert os.listdir() == ["best.pt"]


def test_the_hidden_folder_alone_is_enough_where_temporary_files_are_gone(home: Path) -> None:
    (home / "best.pt").write_text("worthless")
    line = linked(home, "best.pt", "1-1", "the user's")
    hidden = Path(line["kept"]).parent.rename(home / f"{HIDDEN}{DEAD}-1-x")
    written(hidden, {**line, "kept": str(hidden / "1-1")})
    (hidden / WHERE).write_text("another machine")
    with trial_folder(Backups().put_back):
        assert (home / "best.pt").read_text() == "worthless"  # it may be at work on it
    (hidden / WHERE).write_text(run_registry.machine_here())
    with trial_folder(Backups().put_back):
        assert (home / "best.pt").read_text() == "the user's"
    assert os.listdir() == ["best.pt"]
