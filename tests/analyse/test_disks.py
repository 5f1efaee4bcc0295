"""The disks' traffic is divided between the job and strangers."""

from __future__ import annotations

import pytest

from bottleneck_doctor.analyse.host import measure_disks
from bottleneck_doctor.model.instruments import Series
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Run

TIMES = [0.0, 1.0, 2.0, 3.0]


def profile(**per_s: float) -> Profile:
    series = Series(TIMES, {name: [t * value for t in TIMES] for name, value in per_s.items()})
    return Profile(Run([], None, "/", "", 3.0, 0), Machine("", "", "", 2, 2.0), series=series)


def test_what_the_job_did_not_move_is_the_strangers() -> None:
    moved = {"disk_read_bytes": 3e8, "disk_write_bytes": 1e8, "job_read_bytes": 1e8, "job_write_bytes": 0.0}
    disks = measure_disks(profile(disk_busy_s=0.9, **moved), 0.0, 3.0)
    assert disks is not None
    assert disks.strangers_bytes_per_s == pytest.approx(3e8)
    assert disks.job_share == pytest.approx(0.25)
    assert disks.shared


@pytest.mark.parametrize(
    ("busy", "all_bytes", "job"), [(0.1, 4e8, 1e8), (0.9, 1e8, 9e7), (0.9, 2e6, 0.0), (0.9, 0.0, 0.0)]
)
def test_idle_disks_and_small_traffic_are_nobodys_fault(busy: float, all_bytes: float, job: float) -> None:
    disks = measure_disks(profile(disk_busy_s=busy, disk_read_bytes=all_bytes, job_read_bytes=job), 0.0, 3.0)
    assert disks is not None
    assert not disks.shared


def test_nothing_is_said_where_one_side_was_not_counted() -> None:
    assert measure_disks(profile(disk_busy_s=0.9, disk_read_bytes=1e8), 0.0, 3.0) is None
