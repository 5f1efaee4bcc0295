"""The machine is described as the job was given it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bottleneck_doctor.sense import capabilities, prices
from tests.sense.conftest import Plant

CONTAINER = {
    "proc/self/cgroup": "0::/\n",
    "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "proc/cpuinfo": "processor : 0\nmodel name\t: A Fast One @ 3GHz\n",
    "proc/meminfo": "MemTotal:       1000 kB\nMemAvailable: 1 kB\n",
    "sys/fs/cgroup/cpu.max": "50000 100000\n",
    "sys/fs/cgroup/memory.max": "512000\n",
    "sys/fs/cgroup/io.max": "8:0 rbps=1000 riops=7\n",
    "dev/shm/": "",
}


def test_a_quota_below_the_affinity_limits_the_cores(plant: Plant) -> None:
    found, gaps = capabilities.describe_machine(plant(CONTAINER))
    assert (found.cores, found.quota_cores) == (0.5, 0.5)
    assert (found.memory_bytes, found.memory_limit_bytes) == (1_024_000, 512_000)
    assert (found.read_limit_bytes_per_s, found.read_limit_iops) == (1000.0, 7.0)
    assert found.cpu == "A Fast One @ 3GHz"
    assert found.shm_free_bytes is not None
    assert gaps == []


def test_an_affinity_below_the_quota_limits_the_cores(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    found, _ = capabilities.describe_machine(plant({**CONTAINER, "sys/fs/cgroup/cpu.max": "800000 100000\n"}))
    assert (found.cores, found.affinity_cores, found.quota_cores) == (3.0, 3, 8.0)


def test_hardware_threads_of_a_core_are_one_core(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = {
        f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": f"{cpu % 2},{cpu % 2 + 2}\n"
        for cpu in range(4)
    }
    for mask, cores in (({0, 1, 2, 3}, 2), ({0, 2}, 1), ({0, 1}, 2), ({0, 9}, None)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, mask=mask: mask)
        assert capabilities.describe_machine(plant(tree))[0].physical_cores == cores


def test_a_bare_tree_is_described_with_a_gap() -> None:
    found, gaps = capabilities.describe_machine(Path("/nowhere/at/all"))
    assert found.cores >= 1
    assert (found.memory_bytes, found.shm_free_bytes) == (None, None)
    assert [gap.what for gap in gaps] == ["container limits"]


def test_this_machine_can_be_described() -> None:
    found, _ = capabilities.describe_machine()
    assert found.fault_s is None, "it is timed when the training has ended"
    assert 1e-8 < (prices.fault_s() or 0.0) < 1e-4, "seconds to map a page"
    assert found.handed_s is None
    assert 1e-5 < (prices.handed_s() or 0.0) < 1e-2, "seconds to hand a descriptor over"
    assert 0 < found.cores <= found.cores_online
    assert found.memory_bytes is not None
    assert found.cpu


def test_a_machine_on_which_nothing_can_be_handed_over_has_no_price_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no descriptor may leave")

    monkeypatch.setattr(prices, "send_handle", refuse)
    assert prices.handed_s() is None
