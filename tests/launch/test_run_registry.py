"""Runs announce themselves and their end, are found and swept, and are asked for snapshots."""

import mmap
import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bottleneck_doctor.launch import run_registry
from bottleneck_doctor.launch.run_registry import SnapshotWriter, ask_for_snapshot, read_snapshot
from bottleneck_doctor.launch.start import FOLDER_PREFIX
from bottleneck_doctor.model.run import Announcement, Ending, Lifetime, Machine, Run, Snapshot

ANNOUNCED = Announcement(Lifetime(7, 9), "here", ["python", "a.py"], "a.py", "/", "now", 5, "/p.json")


def test_what_was_announced_is_read_and_private(tmp_path: Path) -> None:
    run_registry.announce(tmp_path, ANNOUNCED)
    assert run_registry.read_announcement(tmp_path) == ANNOUNCED
    assert stat.S_IMODE((tmp_path / "run.json").stat().st_mode) == 0o600


def test_the_end_reaches_whoever_held_it_open_though_the_folder_is_gone(tmp_path: Path) -> None:
    run_registry.announce(tmp_path, ANNOUNCED)
    handle = run_registry.hold_ending(tmp_path)
    run_registry.announce(tmp_path, ANNOUNCED)  # again, when more is known: the file stays the same
    assert handle is not None
    assert run_registry.read_ending(handle) is None
    run_registry.announce_end(tmp_path, Ending(3, None, "max-steps"))
    for path in tmp_path.iterdir():
        path.unlink()
    assert run_registry.read_ending(handle) == Ending(3, None, "max-steps")
    os.close(handle)


@pytest.mark.parametrize("text", [b"", b"{", b'{"supervisor": 3}', b"\0" * 100])
def test_a_malformed_announcement_is_none(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(text)
    assert run_registry.read_announcement(tmp_path) is None


def test_links_and_pipes_are_not_followed(tmp_path: Path) -> None:
    real, folder = tmp_path / "real", tmp_path / "folder"
    real.mkdir()
    run_registry.announce(real, ANNOUNCED)
    (tmp_path / "link").symlink_to(real)
    assert run_registry.read_announcement(tmp_path / "link") is None
    folder.mkdir()
    (folder / "run.json").symlink_to(real / "run.json")
    assert run_registry.read_announcement(folder) is None
    (folder / "run.json").unlink()
    os.mkfifo(folder / "run.json")
    assert run_registry.read_announcement(folder) is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_another_users_folder_is_not_believed(tmp_path: Path) -> None:
    run_registry.announce(tmp_path, ANNOUNCED)
    os.chown(tmp_path, 12345, -1)
    assert run_registry.read_announcement(tmp_path) is None


def test_a_process_is_told_from_its_successor_and_from_its_remains() -> None:
    ourselves = run_registry.lifetime(os.getpid())
    assert ourselves is not None
    assert ourselves == run_registry.lifetime(os.getpid())
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie, not yet collected
        assert run_registry.lifetime(process.pid) is None
    assert run_registry.lifetime(process.pid) is None


DEAD = Lifetime(os.getpid(), 1)  # our pid, begun at another time: somebody whose pid was used again


@pytest.fixture
def sleeper() -> Iterator[int]:
    """The pid of a process below us."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


def ourselves() -> Lifetime:
    found = run_registry.lifetime(os.getpid())
    assert found is not None
    return found


def run(at: Path, name: str, **changes: object) -> Path:
    """The folder of a run that lives, unless it is said otherwise."""
    folder = at / f"{FOLDER_PREFIX}{name}"
    folder.mkdir()
    given = {"supervisor": ourselves(), "place": run_registry.machine_here(), **changes}
    announced = replace(ANNOUNCED, command=["python", f"{name}.py"], script=f"{name}.py", **given)  # type: ignore[arg-type]
    run_registry.announce(folder, announced)
    return folder


def found(place: Path) -> list[str]:
    return [one.folder.name.removeprefix(FOLDER_PREFIX) for one in run_registry.find_runs([str(place)])]


def test_the_runs_of_a_place_are_found_oldest_first(tmp_path: Path) -> None:
    run(tmp_path, "new", origin_ns=9)
    run(tmp_path, "elsewhere", place="another boot")
    (tmp_path / "real").mkdir()
    (tmp_path / f"{FOLDER_PREFIX}link").symlink_to(run(tmp_path / "real", "a"))
    run(tmp_path, "old", origin_ns=1)
    (tmp_path / f"{FOLDER_PREFIX}empty").mkdir()
    (tmp_path / "other").mkdir()
    assert found(tmp_path) == ["old", "new"]
    assert found(tmp_path / "gone") == []


def test_a_run_is_meant_by_pid_folder_or_a_part_of_its_command(tmp_path: Path, sleeper: int) -> None:
    folder = run(tmp_path, "train")
    run(tmp_path, "other", supervisor=run_registry.lifetime(os.getppid()))
    all_runs = run_registry.find_runs([str(tmp_path)])
    for wanted in (str(folder), "train.py", "python train"):
        assert [one.folder for one in run_registry.matching(all_runs, wanted)] == [folder]
    for pid in (os.getpid(), sleeper):  # the one of bdoc, and one below it
        assert folder in [one.folder for one in run_registry.matching(all_runs, str(pid))]
    assert run_registry.matching(all_runs, "nothing.py") == []


def test_what_a_killed_supervisor_left_is_swept(tmp_path: Path) -> None:
    """It is known by its start, not by its pid."""
    dead, alive = run(tmp_path, "dead", supervisor=DEAD), run(tmp_path, "alive")
    assert run_registry.sweep(run_registry.find_runs([str(tmp_path)])) == [dead]
    assert (dead.exists(), alive.exists()) == (False, True)


def test_it_stays_while_the_training_goes_on(tmp_path: Path, sleeper: int) -> None:
    dead = run(tmp_path, "dead", supervisor=DEAD, training=run_registry.lifetime(sleeper))
    assert run_registry.sweep(run_registry.find_runs([str(tmp_path)])) == []
    assert dead.exists()


def test_it_stays_while_a_process_has_its_rows_mapped(tmp_path: Path) -> None:
    dead = run(tmp_path, "dead", supervisor=DEAD)
    path = dead / f"{os.getpid()}-1.rows"
    path.write_bytes(b"\0" * 4096)
    with open(path, "r+b") as file:
        rows = mmap.mmap(file.fileno(), 4096)
    assert run_registry.sweep(run_registry.find_runs([str(tmp_path)])) == []
    rows.close()
    assert run_registry.sweep(run_registry.find_runs([str(tmp_path)])) == [dead]


S = 1_000_000_000
TAKEN = Snapshot(
    Run(["python", "a.py"], "a.py", "/", "now", 1.5, 0), Machine("host", "6.1", "cpu", 2, 2.0), 7
)


class Supervisor:
    """Counts how often it took one."""

    def __init__(self) -> None:
        self.taken = 0

    def __call__(self) -> Snapshot:
        self.taken += 1
        return TAKEN


def ask(folder: Path, at_ns: int) -> None:
    """A watcher asks, by a clock of the test's own."""
    ask_for_snapshot(folder)
    os.utime(folder / "asked", ns=(at_ns, at_ns))


def test_one_request_is_answered_once(tmp_path: Path) -> None:
    take, writer = Supervisor(), SnapshotWriter(tmp_path)
    writer.look(0, take)
    assert (take.taken, list(tmp_path.iterdir())) == (0, []), "without a watcher nothing is written"
    ask_for_snapshot(tmp_path)
    for look in range(20):
        writer.look(look * S, take)
    assert take.taken == 1
    assert read_snapshot(tmp_path) == TAKEN
    assert read_snapshot(tmp_path / "gone") is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["asked", "snapshot"]


@pytest.mark.parametrize(("cost_ns", "taken"), [(0, 5), (S // 100, 5), (S // 50, 3)])
def test_the_more_it_costs_the_rarer_it_is(
    cost_ns: int, taken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = iter(range(0, 10**12, cost_ns or 1))
    monkeypatch.setattr(run_registry.time, "thread_time_ns", lambda: next(cpu))
    take, writer = Supervisor(), SnapshotWriter(tmp_path)
    for look in range(40):  # a quarter of a second apart, each with a new request
        ask(tmp_path, 1 + look)
        writer.look(look * S // 4, take)
    assert take.taken == taken


def test_a_snapshot_that_cannot_be_taken_is_not_tried_again(tmp_path: Path) -> None:
    tried = []

    def broken() -> Snapshot:
        tried.append(1)
        raise ZeroDivisionError

    writer = SnapshotWriter(tmp_path)
    for look in range(20):
        ask(tmp_path, 1 + look)
        writer.look(look * S, broken)
    assert tried == [1]
