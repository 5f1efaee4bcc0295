"""Which runs there are, which is meant, and what may be swept away."""

from __future__ import annotations

import mmap
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bottleneck_doctor.launch import run_registry
from bottleneck_doctor.launch.folder import PREFIX
from bottleneck_doctor.model.run import Announcement, Lifetime

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
    folder = at / f"{PREFIX}{name}"
    folder.mkdir()
    said = Announcement(
        ourselves(),
        run_registry.machine_here(),
        ["python", f"{name}.py"],
        f"{name}.py",
        "/",
        "now",
        5,
        "/p.json",
    )
    run_registry.announce(folder, replace(said, **changes))  # type: ignore[arg-type]
    return folder


def found(place: Path) -> list[str]:
    return [one.folder.name.removeprefix(PREFIX) for one in run_registry.find_runs([str(place)])]


def test_the_runs_of_a_place_are_found_oldest_first(tmp_path: Path) -> None:
    run(tmp_path, "new", origin_ns=9)
    run(tmp_path, "old", origin_ns=1)
    (tmp_path / f"{PREFIX}empty").mkdir()
    (tmp_path / "other").mkdir()
    assert found(tmp_path) == ["old", "new"]


def test_a_run_of_another_machine_or_container_is_none_of_ours(tmp_path: Path) -> None:
    run(tmp_path, "elsewhere", place="another boot")
    assert found(tmp_path) == []


def test_a_link_to_a_run_is_not_followed(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(run(real, "a"))
    assert found(tmp_path) == []


def test_a_place_that_is_not_there_holds_no_runs(tmp_path: Path) -> None:
    assert run_registry.find_runs([str(tmp_path / "gone")]) == []


def test_a_run_whose_supervisor_was_killed_is_known_by_its_start_not_by_its_pid(tmp_path: Path) -> None:
    run(tmp_path, "dead", supervisor=DEAD)
    assert [one.orphaned for one in run_registry.find_runs([str(tmp_path)])] == [True]


def test_a_run_is_meant_by_pid_folder_or_a_part_of_its_command(tmp_path: Path, sleeper: int) -> None:
    folder = run(tmp_path, "train")
    run(tmp_path, "other", supervisor=run_registry.lifetime(os.getppid()))
    all_runs = run_registry.find_runs([str(tmp_path)])
    for wanted in (str(folder), "train.py", "python train"):
        assert [one.folder for one in run_registry.matching(all_runs, wanted)] == [folder]
    for pid in (os.getpid(), sleeper):  # the one of bdoc, and one below it
        assert folder in [one.folder for one in run_registry.matching(all_runs, str(pid))]
    assert run_registry.matching(all_runs, "nothing.py") == []


def test_a_process_that_lost_its_parents_is_known_by_its_environment(tmp_path: Path) -> None:
    folder = run(tmp_path, "a", supervisor=DEAD)
    with subprocess.Popen(["sleep", "60"], env={**os.environ, "BDOC_RUN": str(folder)}) as process:
        announced = [replace(one, announcement=replace(one.announcement, supervisor=Lifetime(1 << 30, 1)))
                     for one in run_registry.find_runs([str(tmp_path)])]  # fmt: skip
        assert [one.folder for one in run_registry.matching(announced, str(process.pid))] == [folder]
        process.kill()


def test_what_a_killed_supervisor_left_is_swept(tmp_path: Path) -> None:
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


def test_a_folder_that_says_nothing_is_left_alone(tmp_path: Path) -> None:
    """It may belong to a run that begins in this very moment, or to an older bdoc."""
    silent = tmp_path / f"{PREFIX}silent"
    silent.mkdir()
    assert run_registry.sweep(run_registry.find_runs([str(tmp_path)])) == []
    assert silent.exists()
