"""Who may look into a process, and the one command that would let us."""

from __future__ import annotations

import os

import pytest

from bottleneck_doctor.sense.proc_files import (
    FIRST_NAMESPACE,
    SCOPE,
    in_container,
    tracer,
    what_allows,
    why_refused,
)
from tests.sense.conftest import Plant


def machine(plant: Plant, scope: int | None = None, uid: int | None = None, container: bool = False):
    """A root on which process 7 is ours unless it is another user's."""
    files = {
        "proc/7/status": f"Name:\tx\nUid:\t{os.geteuid() if uid is None else uid}\t0\t0\t0\n",
        "proc/self/ns/": "",
    }
    files |= {} if scope is None else {SCOPE: f"{scope}\n"}
    files |= {".dockerenv": ""} if container else {}
    root = plant(files)
    if not (root / "proc/self/ns/pid").is_symlink():
        (root / "proc/self/ns/pid").symlink_to(FIRST_NAMESPACE)
    return root


@pytest.mark.parametrize(
    ("scope", "container", "do"),
    [
        (None, False, "sudo setcap cap_sys_ptrace+ep /opt/py-spy"),
        (0, False, "sudo setcap cap_sys_ptrace+ep /opt/py-spy"),
        (1, False, "sudo sysctl kernel.yama.ptrace_scope=0"),
        (2, False, "sudo sysctl kernel.yama.ptrace_scope=1"),  # we are let in by name then
        (None, True, "start the container with `--cap-add SYS_PTRACE`"),
        (2, True, "start the container with `--cap-add SYS_PTRACE`"),
    ],
)
def test_one_command_is_named_and_it_fits_the_machine(
    plant: Plant, scope: int | None, container: bool, do: str
) -> None:
    root = machine(plant, scope, container=container)
    assert what_allows(7, root, "/opt/py-spy") == do


def test_what_no_command_can_change_is_said(plant: Plant) -> None:
    assert "boot again" in what_allows(7, machine(plant, 3), "/opt/py-spy")


def test_another_users_process_is_said_to_be_one(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    root = machine(plant, 1, uid=1001)
    assert why_refused(7, root) == "it belongs to user 1001, bdoc runs as user 1000"
    assert what_allows(7, root, "/opt/py-spy") == "run bdoc as the user who trains"
    assert why_refused(8, root) == "kernel.yama.ptrace_scope is 1", (
        "of a process that is gone nothing is known"
    )


def test_a_training_names_us_only_where_yama_asks_for_it(plant: Plant) -> None:
    assert [tracer(machine(plant, scope)) for scope in (None, 0, 1, 2, 3)] == [
        None,
        None,
        os.getpid(),
        None,
        None,
    ]


def test_a_container_is_known_by_its_file_or_by_its_processes(plant: Plant) -> None:
    root = machine(plant)
    assert not in_container(root)
    (root / "proc/self/ns/pid").unlink()
    (root / "proc/self/ns/pid").symlink_to("pid:[4026532817]")
    assert in_container(root)
    assert in_container(machine(plant, container=True))
