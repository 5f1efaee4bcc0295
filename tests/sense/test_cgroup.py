"""The groups of a process are found in every layout that containers and old systems present."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottleneck_doctor.sense.cgroup import find_cgroups, groups_with
from tests.sense.conftest import Plant

CGROUP2 = "30 23 0:26 {root} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def mounted_v1(controllers: str, root: str = "/") -> str:
    """A line of mountinfo for a v1 hierarchy."""
    return f"33 25 0:28 {root} /sys/fs/cgroup/{controllers} rw - cgroup cgroup rw,{controllers}\n"


def below(root: Path, groups: list[Path]) -> list[str]:
    """The groups' paths below the fixture's cgroup folder."""
    return [str(group.relative_to(root / "sys/fs/cgroup")) for group in groups]


def test_v2_runs_from_the_own_group_to_the_top(plant: Plant) -> None:
    root = plant(
        {
            "proc/self/cgroup": "0::/user.slice/job\n",
            "proc/self/mountinfo": CGROUP2.format(root="/"),
            "sys/fs/cgroup/user.slice/job/cpu.max": "max 100000\n",
        }
    )
    found = find_cgroups(root)
    assert found.kind == "v2"
    assert below(root, found.unified) == ["user.slice/job", "user.slice", "."]


def test_v1_finds_each_controller_where_it_is_mounted(plant: Plant) -> None:
    root = plant(
        {
            "proc/self/cgroup": "4:cpu,cpuacct:/job\n3:memory:/\n1:name=systemd:/job\n",
            "proc/self/mountinfo": mounted_v1("cpu,cpuacct") + mounted_v1("memory"),
            "sys/fs/cgroup/cpu,cpuacct/job/": "",
            "sys/fs/cgroup/memory/": "",
        }
    )
    found = find_cgroups(root)
    assert found.kind == "v1"
    assert below(root, found.controllers["cpu"]) == ["cpu,cpuacct/job", "cpu,cpuacct"]
    assert below(root, found.controllers["memory"]) == ["memory"]
    assert "name=systemd" not in found.controllers


def test_hybrid_asks_the_old_hierarchy_for_what_lives_there(plant: Plant) -> None:
    unified = CGROUP2.format(root="/").replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified ")
    root = plant(
        {
            "proc/self/cgroup": "1:cpu:/\n0::/\n",
            "proc/self/mountinfo": mounted_v1("cpu") + unified,
            "sys/fs/cgroup/cpu/cpu.stat": "nr_periods 1\n",
            "sys/fs/cgroup/unified/cpu.stat": "usage_usec 1\n",
            "sys/fs/cgroup/unified/memory.max": "max\n",
        }
    )
    found = find_cgroups(root)
    assert found.kind == "hybrid"
    assert below(root, groups_with(found, "cpu", "cpu.stat", "cpu.stat")) == ["cpu/cpu.stat"]
    assert below(root, groups_with(found, "memory", "memory.max", "x")) == ["unified/memory.max"]


def test_a_container_that_sees_its_own_group_as_the_mount_finds_it(plant: Plant) -> None:
    root = plant(
        {
            "proc/self/cgroup": "4:memory:/docker/abc/inner\n",
            "proc/self/mountinfo": mounted_v1("memory", root="/docker/abc"),
            "sys/fs/cgroup/memory/inner/": "",
        }
    )
    assert below(root, find_cgroups(root).controllers["memory"]) == ["memory/inner", "memory"]


@pytest.mark.parametrize("path", ["/docker/abc", "/../../sibling", "/"])
def test_a_path_that_the_mount_does_not_show_means_the_mount_itself(plant: Plant, path: str) -> None:
    root = plant(
        {
            "proc/self/cgroup": f"0::{path}\n",
            "proc/self/mountinfo": CGROUP2.format(root="/"),
            "sys/fs/cgroup/cpu.max": "200000 100000\n",
        }
    )
    assert below(root, find_cgroups(root).unified) == ["."]


def test_another_process_is_asked_for_by_its_number(plant: Plant) -> None:
    root = plant(
        {
            "proc/77/cgroup": "0::/job\n",
            "proc/77/mountinfo": CGROUP2.format(root="/"),
            "sys/fs/cgroup/job/": "",
        }
    )
    assert below(root, find_cgroups(root, 77).unified) == ["job", "."]


def test_without_a_cgroup_file_system_there_are_no_groups(plant: Plant) -> None:
    found = find_cgroups(plant({"proc/self/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"}))
    assert (found.kind, found.unified, found.controllers) == ("none", [], {})
    assert find_cgroups(Path("/nowhere/at/all")).kind == "none"
