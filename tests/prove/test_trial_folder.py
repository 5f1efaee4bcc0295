"""The folder of a trial is private, gone afterwards, and cleared up by the next if its owner was killed."""

import os
from pathlib import Path

import pytest

from bottleneck_doctor.launch import run_registry
from bottleneck_doctor.model.errors import UsageError
from bottleneck_doctor.prove.put_back_files import WHERE
from bottleneck_doctor.prove.trials import LOG_BYTES_AT_MOST, PREFIX, keep_short, tail, trial_folder

DEAD = 4_194_304  # above the largest pid that Linux gives


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def nothing(folder: Path) -> bool:
    return True


def left(home: Path, pid: int, began: int = 1, where: str | None = None) -> Path:
    folder = home / f"{PREFIX}{pid}-{began}-x"
    folder.mkdir()
    (folder / WHERE).write_text(run_registry.machine_here() if where is None else where)
    return folder


def test_it_is_private_and_gone_afterwards(home: Path) -> None:
    with trial_folder(nothing) as folder:
        assert folder.parent == home
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "deep").mkdir()
    assert list(home.iterdir()) == []


def test_what_the_dead_left_is_removed_and_what_others_use_is_not(home: Path) -> None:
    ours = run_registry.lifetime(os.getpid())
    assert ours is not None
    dead = left(home, DEAD)
    reused = left(home, os.getpid(), began=ours.began - 1)
    living = left(home, ours.pid, ours.began)
    elsewhere = left(home, DEAD, began=2, where="another boot")
    strange = home / f"{PREFIX}notes"
    strange.mkdir()
    with trial_folder(nothing):
        found = {one: one.exists() for one in (dead, reused, living, elsewhere, strange)}
    assert found == {dead: False, reused: False, living: True, elsewhere: True, strange: True}


def test_without_any_place_the_user_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bottleneck_doctor.prove.trials.usual_places", lambda: ["/proc/nowhere"])
    with pytest.raises(UsageError, match=r"no place to keep trials in .*TMPDIR"), trial_folder(nothing):
        pass


def test_the_tail_of_a_log_is_its_last_lines_whatever_ends_them(home: Path) -> None:
    log = home / "log"
    log.write_bytes(b"x" * 100_000 + b"\n 10%|#  |\r 20%|## |\r\n\n\xff last\n")
    assert tail(log)[1:] == ["10%|#  |", "20%|## |", "\N{REPLACEMENT CHARACTER} last"]
    assert tail(home / "none") == []


def test_a_log_that_grows_without_end_is_emptied_under_its_writer(home: Path) -> None:
    log = home / "log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"kept\n")
        keep_short(log)
        assert tail(log) == ["kept"]
        os.truncate(log, LOG_BYTES_AT_MOST + 1)
        keep_short(log)
        writer.write(b"after\n")
    assert tail(log) == ["after"]
