"""What can be measured is listed with reasons, and what cannot with a way to allow it."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from bottleneck_doctor.sense import capabilities
from bottleneck_doctor.sense.capabilities import list_capabilities
from bottleneck_doctor.sense.cgroup import Cgroups
from tests.sense.conftest import Plant


def test_this_machine_lists_each_capability_once_and_leaves_no_child() -> None:
    before = psutil.Process().children()  # of tests before this one
    found = list_capabilities()
    names = [one.name for one in found]
    assert len(names) == len(set(names))
    assert {"cores", "shared memory", "control groups", "what blocked threads wait for"} <= set(names)
    assert all(one.detail for one in found)
    assert all(not one.do for one in found if one.available)
    assert set(psutil.Process().children()) <= set(before)


def test_a_bare_tree_says_what_to_do_about_each_missing_thing() -> None:
    missing = [one for one in list_capabilities(Path("/nowhere/at/all")) if not one.available]
    expected = {
        "shared memory",
        "run-queue wait",
        "bytes per task",
        "control groups",
        "pressure stall information",
    }
    assert expected <= {one.name for one in missing}
    assert all(one.do for one in missing)


def test_cores_say_why(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    root = plant({"job/cpu.max": "150000 100000"})
    monkeypatch.setattr(capabilities, "find_cgroups", lambda _: Cgroups("v2", unified=[root / "job"]))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    found = list_capabilities(root)[0]
    assert found.detail == "1.5 allowed: 8 online, 3 in the affinity mask, a cgroup quota of 1.5"


@pytest.mark.parametrize(("text", "available"), [("1\n", True), ("0\n", False)])
def test_delay_accounting_must_be_switched_on(plant: Plant, text: str, available: bool) -> None:
    root = plant({"proc/sys/kernel/task_delayacct": text})
    found = next(one for one in list_capabilities(root) if one.name == "delay accounting")
    assert (found.available, bool(found.do)) == (available, not available)


def test_a_missing_py_spy_names_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "find_py_spy", lambda: None)
    found = next(one for one in list_capabilities() if "py-spy" in one.name)
    assert (found.available, found.do) == (False, "pip install py-spy")
