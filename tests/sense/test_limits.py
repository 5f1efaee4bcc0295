"""Limits are the tightest that any group above the process sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottleneck_doctor.sense import cgroup
from bottleneck_doctor.sense.cgroup import Cgroups
from tests.sense.conftest import Plant

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
        ({"slice/job/cpu.max": "150000 100000"}, 1.5),
        ({"slice/job/cpu.max": "max 100000", "slice/cpu.max": "300000 100000"}, 3.0),
        ({"slice/job/cpu.max": "400000 100000", "slice/cpu.max": "50000 100000"}, 0.5),
        ({"slice/job/cpu.max": "max 100000"}, None),
        ({"slice/job/cpu.max": ""}, None),
        ({"slice/job/cpu.max": "100000 0"}, None),
        ({}, None),
    ],
)
def test_the_smallest_v2_quota_counts(plant: Plant, files: Files, cores: float | None) -> None:
    assert cgroup.quota_cores(nested(plant({"slice/job/": "", **files}))) == cores


@pytest.mark.parametrize(("quota", "cores"), [("250000", 2.5), ("-1", None), ("nonsense", None)])
def test_a_v1_quota_is_divided_by_its_period(plant: Plant, quota: str, cores: float | None) -> None:
    files = {"slice/job/cpu.cfs_quota_us": f"{quota}\n", "slice/job/cpu.cfs_period_us": "100000\n"}
    assert cgroup.quota_cores(old(plant(files))) == cores


def test_memory_high_limits_as_memory_max_does(plant: Plant) -> None:
    root = plant({"slice/job/memory.max": "8000", "slice/job/memory.high": "6000", "slice/memory.max": "max"})
    assert cgroup.memory_limit_bytes(nested(root)) == 6000


def test_the_largest_v1_number_means_no_limit(plant: Plant) -> None:
    assert cgroup.memory_limit_bytes(old(plant({"memory.limit_in_bytes": "9223372036854771712"}))) is None
    assert cgroup.memory_limit_bytes(old(plant({"memory.limit_in_bytes": "5000"}))) == 5000


def test_memory_in_use_is_the_nearest_groups(plant: Plant) -> None:
    root = plant({"slice/job/memory.current": "10", "slice/memory.current": "99"})
    assert cgroup.memory_used_bytes(nested(root)) == 10


def test_the_smallest_read_rate_on_any_disk_counts(plant: Plant) -> None:
    text = "8:0 rbps=2000000 wbps=max riops=max wiops=5\n8:16 rbps=max riops=120\n"
    root = plant({"slice/job/io.max": text, "slice/io.max": "8:0 rbps=1000000 riops=max\n"})
    assert cgroup.read_limit(nested(root)) == cgroup.ReadLimit(1e6, 120.0)


def test_v1_read_throttles_are_read(plant: Plant) -> None:
    root = plant(
        {
            "slice/job/blkio.throttle.read_bps_device": "8:0 1048576\n8:16 524288\n",
            "slice/blkio.throttle.read_iops_device": "8:0 100\n",
        }
    )
    assert cgroup.read_limit(old(root)) == cgroup.ReadLimit(524288.0, 100.0)


def test_no_throttle_is_no_limit(plant: Plant) -> None:
    assert cgroup.read_limit(nested(plant({"slice/job/io.max": "garbage\n"}))) == cgroup.ReadLimit()


def test_throttling_is_counted_where_the_tightest_quota_is(plant: Plant) -> None:
    root = plant(
        {
            "slice/job/cpu.max": "max 100000",
            "slice/job/cpu.stat": "usage_usec 5\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
            "slice/cpu.max": "100000 100000",
            "slice/cpu.stat": "usage_usec 5\nnr_periods 40\nnr_throttled 10\nthrottled_usec 2500000\n",
        }
    )
    assert cgroup.throttling(nested(root)) == cgroup.Throttling(40, 10, 2.5)


def test_v1_counts_throttled_time_in_nanoseconds(plant: Plant) -> None:
    root = plant({"slice/job/cpu.stat": "nr_periods 4\nnr_throttled 1\nthrottled_time 1500000000\n"})
    assert cgroup.throttling(old(root)) == cgroup.Throttling(4, 1, 1.5)


def test_a_group_that_does_not_count_throttling_says_nothing(plant: Plant) -> None:
    assert cgroup.throttling(nested(plant({"slice/job/cpu.stat": "usage_usec 5\n"}))) is None


def test_the_pressure_of_the_root_group_is_not_the_jobs(plant: Plant) -> None:
    pressure = {"slice/job/cpu.pressure": "some avg10=0.00 total=1\n"}
    assert cgroup.pressure_folder(nested(plant(pressure))) is None
    root = plant({"slice/job/cgroup.type": "domain\n"})
    assert cgroup.pressure_folder(nested(root)) == root / "slice/job"


@pytest.mark.parametrize(
    ("files", "hits"),
    [
        ({"slice/job/memory.events": "low 0\nhigh 3\nmax 4\noom 0\n"}, 7),
        ({"slice/job/memory.current": "1"}, None),
    ],
)
def test_hits_of_a_v2_memory_limit_are_counted(plant: Plant, files: Files, hits: int | None) -> None:
    assert cgroup.memory_limit_hits(nested(plant(files))) == hits


def test_hits_of_a_v1_memory_limit_are_its_fail_count(plant: Plant) -> None:
    assert cgroup.memory_limit_hits(old(plant({"slice/job/memory.failcnt": "12\n"}))) == 12
