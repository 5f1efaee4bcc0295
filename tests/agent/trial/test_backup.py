"""What a script is about to overwrite is put aside first, and the script notices nothing of it."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.agent.state import state
from bottleneck_doctor.agent.trial import backup
from bottleneck_doctor.agent.trial.backup import _Keeper
from bottleneck_doctor.prove.put_back_files import Backups
from tests.house.source import ROOT

READ, WRITE, APPEND = os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.O_WRONLY | os.O_APPEND
OLD = b"many hours of training"


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a trial; the script's own is the one in which we stand."""
    home, folder = tmp_path / "home", tmp_path / ".bdoc-prove-1-1-token"
    home.mkdir()
    folder.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.setattr(state, "folder", str(folder), raising=False)
    return folder


@pytest.fixture
def hear(trial: Path) -> Callable[..., None]:
    """What the audit hook does, without one: a process never gets rid of such a hook."""
    return _Keeper(str(trial)).hook()


def old(name: str, data: bytes = OLD) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (1e9, 1e9))
    path.chmod(0o640)
    return path


def seen(path: Path) -> tuple[bytes, int, int]:
    return path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns


def listed(trial: Path) -> list[str]:
    file = trial / backup.LIST
    return [json.loads(line)["what"] for line in file.read_text().splitlines()] if file.exists() else []


def test_what_is_only_read_or_cannot_be_written_is_left_alone(
    trial: Path, hear: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = old("best.pt")
    hear("open", (str(path), "rb", READ))
    hear("open", (str(path), "xb", WRITE | os.O_EXCL))
    hear("open", (3, "wb", WRITE))
    hear("open", ("/dev/null", "w", WRITE))
    hear("os.remove", ("missing", -1))
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write whatever it likes
    hear("open", (str(path), "wb", WRITE))
    assert (listed(trial), os.listdir()) == ([], ["best.pt"])


def test_what_the_script_opens_anew_has_the_mode_that_it_had(hear: Callable[..., None]) -> None:
    path = old("best.pt")
    path.chmod(0o666)  # more than the usual umask lets a new file have
    hear("open", (str(path), "wb", WRITE))
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"", 0o666)


def test_a_file_that_goes_on_under_another_name_is_not_written_through_it(
    trial: Path, hear: Callable[..., None]
) -> None:
    path = old("last.pt")
    before = seen(path)
    for flags in (WRITE, APPEND):
        hear("os.rename", ("last.pt", "previous.pt", -1, -1))
        os.rename("last.pt", "previous.pt")
        hear("open", ("previous.pt", "", flags))
        Path("previous.pt").write_bytes(b"worthless")
        assert Backups().put_back(trial)
        assert (seen(path), Path("previous.pt").read_bytes()) == (before, b"worthless")
        os.unlink("previous.pt")
        hear = _Keeper(str(trial)).hook()


def test_a_folder_that_is_removed_and_made_anew_is_still_the_users_in_the_next_trial(trial: Path) -> None:
    path, backups = old("out/best.pt"), Backups()
    before = seen(path)
    for _ in range(2):
        backups.prepare(trial)
        hear = _Keeper(str(trial)).hook()
        hear("os.remove", ("out/best.pt", -1))
        path.unlink()
        hear("os.rmdir", ("out", -1))
        os.rmdir("out")
        hear("os.mkdir", ("out", 0o777, -1))
        os.mkdir("out")
        hear("open", ("out/best.pt", "wb", WRITE))
        path.write_bytes(b"worthless")
        assert backups.put_back(trial)
        assert seen(path) == before


def test_the_users_symbolic_link_is_put_back_as_a_link(trial: Path, hear: Callable[..., None]) -> None:
    old("best.pt")
    os.symlink("best.pt", "latest")
    hear("os.remove", ("latest", -1))
    os.remove("latest")
    hear("os.symlink", ("other.pt", "latest", -1))
    os.symlink("other.pt", "latest")
    assert Backups().put_back(trial)
    assert os.readlink("latest") == "best.pt"


def test_a_file_too_large_to_copy_is_left_and_told(
    trial: Path, hear: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "COPIED_AT_MOST", 4)
    old("train.log")
    hear("open", ("train.log", "a", APPEND))
    backups = Backups()
    assert backups.put_back(trial)
    assert backups.failures() == ["not put back: train.log; it is changed in place, and has more than 64 MiB"]


def test_where_a_file_system_has_no_second_names_and_no_renames_files_are_copied(
    trial: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = old("best.pt"), old("last.pt"), old("doomed.pt")
    before = [seen(path) for path in paths]
    rename = os.rename

    def no_link(*args: Any, **kwargs: Any) -> None:
        raise PermissionError

    def no_rename(source: str, target: str) -> None:
        if not source.endswith(".part"):
            raise OSError
        rename(source, target)

    hear = _Keeper(str(trial)).hook()
    with monkeypatch.context() as patched:
        patched.setattr(os, "link", no_link)
        patched.setattr(os, "rename", no_rename)
        hear("os.rename", ("last.pt", "best.pt", -1, -1))
        hear("os.remove", ("doomed.pt", -1))
    os.rename("last.pt", "best.pt")
    os.remove("doomed.pt")
    assert Backups().put_back(trial)
    assert [seen(path) for path in paths] == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_nothing_is_put_into_a_hidden_folder_that_another_user_made(
    trial: Path, hear: Callable[..., None]
) -> None:
    theirs, path = Path(backup.HIDDEN + "1-1-token"), old("best.pt")
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    before = seen(path)
    hear("open", ("best.pt", "wb", WRITE))
    path.write_bytes(b"new")
    assert os.listdir(theirs) == []
    assert Backups().put_back(trial)
    assert seen(path) == before


SCRIPT = """
import os, shutil, sys
sys.path.insert(0, sys.argv[1])
from bottleneck_doctor.agent.trial import backup
from bottleneck_doctor.agent.state import state
state.folder = sys.argv[2]
backup.watch(sys.argv[2])
with open("opened.txt", "w") as file:
    file.write("worthless")
with open("appended.txt", "a") as file:
    file.write("worthless")
os.replace("opened.txt", "replaced.txt")
shutil.rmtree("out")
os.truncate("cut.txt", 1)
try:
    open("missing/file", "w")
except FileNotFoundError as problem:
    print(problem)
"""


def test_the_hook_hears_of_all_of_it_and_the_script_of_nothing(trial: Path) -> None:
    """``shutil.rmtree`` names files by the descriptor of their folder."""
    names = "opened.txt", "appended.txt", "replaced.txt", "out/deep/a.txt", "out/b.txt", "cut.txt"
    paths = [old(name) for name in names]
    before = [seen(path) for path in paths]
    line = [sys.executable, "-c", SCRIPT, str(ROOT), str(trial)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[Errno 2] No such file or directory: 'missing/file'\n", "")
    assert [path.exists() and path.read_bytes() == OLD for path in paths] == [False] * len(paths)
    backups = Backups()
    assert backups.put_back(trial)
    assert [seen(path) for path in paths] == before
    assert set(backups.back) == {str(path.resolve()) for path in paths}
    assert sorted(os.listdir()) == sorted({name.split("/")[0] for name in names})


CROWD = """
import os, sys
sys.path.insert(0, sys.argv[1])
from bottleneck_doctor.agent.trial import backup
from bottleneck_doctor.agent.state import state
state.folder = sys.argv[2]
backup.watch(sys.argv[2])
children = [os.fork() for _ in range(3)]  # eight processes, by pairs
for name in range(50):
    try:
        open("%d.pt" % name, "w").close()
        os.replace("%d.pt" % name, "%d.pt" % ((name + 1) % 50))
    except FileNotFoundError:
        pass
for child in children:
    if child:
        os.waitpid(child, 0)
"""


def test_processes_that_write_the_same_files_at_once_keep_each_once(trial: Path) -> None:
    paths = [old(f"{number}.pt", b"%d" % number) for number in range(50)]
    before = [seen(path) for path in paths]
    subprocess.run([sys.executable, "-c", CROWD, str(ROOT), str(trial)], check=True)
    assert Backups().put_back(trial)
    assert [seen(path) for path in paths] == before
