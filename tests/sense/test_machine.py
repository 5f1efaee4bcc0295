"""The machine, its control groups, limits and neighbours, as /proc and /sys have them."""

import os
from pathlib import Path

import pytest

from bottleneck_doctor.sense import capabilities, host, machine_costs
from bottleneck_doctor.sense.files import PAGE_BYTES, TICKS_PER_S
from bottleneck_doctor.sense.host import Cgroups, HostSensor, find_cgroups
from tests.sense.conftest import Plant

CGROUP2 = "30 23 0:26 {root} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def mounted_v1(controllers: str, root: str = "/") -> str:
    """A line of mountinfo for a v1 hierarchy."""
    return f"33 25 0:28 {root} /sys/fs/cgroup/{controllers} rw - cgroup cgroup rw,{controllers}\n"


def below(root: Path, groups: list[Path]) -> list[str]:
    """The groups' paths below the fixture's cgroup folder."""
    return [str(group.relative_to(root / "sys/fs/cgroup")) for group in groups]


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


@pytest.mark.parametrize("path", ["/docker/abc", "/../../sibling"])
def test_a_path_that_the_mount_does_not_show_means_the_mount_itself(plant: Plant, path: str) -> None:
    root = plant(
        {
            "proc/self/cgroup": f"0::{path}\n",
            "proc/self/mountinfo": CGROUP2.format(root="/"),
            "sys/fs/cgroup/cpu.max": "200000 100000\n",
        }
    )
    assert below(root, find_cgroups(root).unified) == ["."]


MACHINE = {
    "proc/stat": "cpu  100 20 30 400 50 6 4 7 90 0\ncpu0 100 0 0 100 0 0 0 0 0 0\nintr 5\n",
    "proc/meminfo": "MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable:    5 kB\n",
    "proc/vmstat": "nr_free_pages 1\npswpin 3\npswpout 4\n",
    "proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n",
    "proc/pressure/io": "some avg10=0.00 total=2000000\nfull avg10=0.00 total=1000000\n",
    "proc/pressure/memory": "some avg10=0.00 total=0\nfull avg10=0.00 total=0\n",
}


def test_guest_time_is_not_counted_twice_and_stalls_are_the_machines(plant: Plant) -> None:
    values = HostSensor(1, plant(MACHINE)).read()
    assert values["cpu_busy_s"] == (100 + 20 + 30 + 6 + 4) / TICKS_PER_S
    assert (values["cpu_idle_s"], values["cpu_iowait_s"]) == (400 / TICKS_PER_S, 50 / TICKS_PER_S)
    assert (values["memory_available_bytes"], values["swap_in_bytes"]) == (5 * 1024, 3 * PAGE_BYTES)
    assert (values["pressure_cpu_some_s"], values["pressure_io_some_s"]) == (1.5, 2)


def test_stalls_throttling_and_memory_of_the_jobs_own_group_are_preferred(plant: Plant) -> None:
    root = plant(
        {
            **MACHINE,
            "proc/77/cgroup": "0::/job\n",
            "proc/77/mountinfo": CGROUP2.format(root="/"),
            "sys/fs/cgroup/job/cgroup.type": "domain\n",
            "sys/fs/cgroup/job/cpu.pressure": "some avg10=0.00 total=250000\n",
            "sys/fs/cgroup/job/io.pressure": "some avg10=0.00 total=0\n",
            "sys/fs/cgroup/job/memory.events": "low 0\nhigh 3\nmax 4\noom 0\n",
            "sys/fs/cgroup/job/cpu.stat": "nr_periods 10\nnr_throttled 2\n",
        }
    )
    values = HostSensor(77, root).read()
    assert values["pressure_cpu_some_s"] == 0.25
    assert (values["quota_periods"], values["throttled_periods"], values["memory_limit_hits"]) == (10, 2, 7)


Files = dict[str, str]


def nested(root: Path) -> Cgroups:
    """A v2 group ``job`` inside ``slice`` inside the top."""
    return Cgroups("v2", unified=[root / "slice/job", root / "slice", root])


def old(root: Path) -> Cgroups:
    """The same depth in v1, one controller after the other."""
    groups = [root / "slice/job", root / "slice", root]
    return Cgroups("v1", controllers=dict.fromkeys(("cpu", "memory", "blkio"), groups))


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"slice/job/cpu.max": "max 100000", "slice/cpu.max": "300000 100000"}, 3.0),
        ({"slice/job/cpu.max": "400000 100000", "slice/cpu.max": "50000 100000"}, 0.5),
        ({"slice/job/cpu.max": "max 100000"}, None),
        ({"slice/job/cpu.max": "100000 0"}, None),
        ({}, None),
    ],
)
def test_the_smallest_v2_quota_counts(plant: Plant, files: Files, cores: float | None) -> None:
    assert host.quota_cores(nested(plant({"slice/job/": "", **files}))) == cores


def test_the_largest_v1_number_means_no_limit(plant: Plant) -> None:
    assert host.memory_limit_bytes(old(plant({"memory.limit_in_bytes": "9223372036854771712"}))) is None
    assert host.memory_limit_bytes(old(plant({"memory.limit_in_bytes": "5000"}))) == 5000
    root = plant({"slice/job/memory.max": "8000", "slice/job/memory.high": "6000", "slice/memory.max": "max"})
    assert host.memory_limit_bytes(nested(root)) == 6000, "memory.high limits as memory.max does"


def test_the_smallest_read_rate_on_any_disk_counts(plant: Plant) -> None:
    text = "8:0 rbps=2000000 wbps=max riops=max wiops=5\n8:16 rbps=max riops=120\n"
    root = plant({"slice/job/io.max": text, "slice/io.max": "8:0 rbps=1000000 riops=max\n"})
    assert host.read_limits(nested(root)) == (1e6, 120.0)


def test_v1_read_throttles_and_hits_of_the_memory_limit_are_read(plant: Plant) -> None:
    root = plant(
        {
            "slice/job/memory.failcnt": "12\n",
            "slice/job/blkio.throttle.read_bps_device": "8:0 1048576\n8:16 524288\n",
            "slice/blkio.throttle.read_iops_device": "8:0 100\n",
        }
    )
    assert host.read_limits(old(root)) == (524288.0, 100.0)
    assert host.memory_limit_hits(old(root)) == 12


def test_throttling_is_counted_where_the_tightest_quota_is(plant: Plant) -> None:
    root = plant(
        {
            "slice/job/cpu.max": "max 100000",
            "slice/job/cpu.stat": "usage_usec 5\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
            "slice/cpu.max": "100000 100000",
            "slice/cpu.stat": "usage_usec 5\nnr_periods 40\nnr_throttled 10\nthrottled_usec 2500000\n",
        }
    )
    assert host.throttling(nested(root)) == (40, 10)


CONTAINER = {
    "proc/self/cgroup": "0::/\n",
    "proc/self/mountinfo": CGROUP2.format(root="/"),
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


def test_hardware_threads_of_a_core_are_one_core(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = {
        f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": f"{cpu % 2},{cpu % 2 + 2}\n"
        for cpu in range(4)
    }
    for mask, cores in (({0, 1, 2, 3}, 2), ({0, 2}, 1), ({0, 1}, 2), ({0, 9}, None)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, mask=mask: mask)
        assert capabilities.describe_machine(plant(tree))[0].physical_cores == cores


def test_this_machine_can_be_described() -> None:
    found, _ = capabilities.describe_machine()
    assert found.fault_s is None, "it is timed when the training has ended"
    assert 1e-8 < (machine_costs.fault_s() or 0.0) < 1e-4, "seconds to map a page"
    assert found.handed_s is None
    assert 1e-5 < (machine_costs.handed_s() or 0.0) < 1e-2, "seconds to hand a descriptor over"
    assert 0 < found.cores <= found.cores_online
    assert found.memory_bytes is not None
    assert found.cpu


def test_a_machine_on_which_nothing_can_be_handed_over_has_no_price_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no descriptor may leave")

    monkeypatch.setattr(machine_costs, "send_handle", refuse)
    assert machine_costs.handed_s() is None
