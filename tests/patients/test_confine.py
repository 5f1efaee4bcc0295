"""A patient is held to its limits where the kernel lets us, and runs as it is where it does not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.patients.confine import CGROUPS, confined
from tests.patients.patient import Patient, ids

HELD = Patient("held", "ailment", ids("io"), ids("host.memory"), "", memory_bytes=1 << 30, quota_cores=0.5)


def test_without_the_right_to_make_groups_the_command_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.patients.confine.CGROUPS", tmp_path / "absent")
    with confined(HELD, tmp_path) as prefix:
        assert prefix == []


def test_groups_that_were_made_hold_the_command_and_are_gone_afterwards(tmp_path: Path) -> None:
    with confined(HELD, tmp_path) as prefix:
        if not prefix:
            pytest.skip("this machine lets nobody make control groups")
        show = [*prefix, "cat", "/proc/self/cgroup"]
        shown = subprocess.run(show, capture_output=True, text=True, check=True).stdout
        assert "bdoc-patient-" in shown
    assert not list(CGROUPS.glob("**/bdoc-patient-memory-*"))
