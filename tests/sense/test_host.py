"""The machine's counters are read in every layout, and what is missing is left out and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottleneck_doctor.sense.host import HostSensor
from bottleneck_doctor.sense.proc_files import TICKS_PER_S
from tests.sense.conftest import Plant

MACHINE = {
    "proc/stat": "cpu  100 20 30 400 50 6 4 7 90 0\n"
    "cpu0 100 0 0 100 0 0 0 0 0 0\ncpu1 0 0 0 200 0 0 0 0 0 0\nintr 5\n",
    "proc/meminfo": "MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable:    5 kB\n",
    "proc/vmstat": "nr_free_pages 1\npswpin 3\npswpout 4\n",
    "proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n",
    "proc/pressure/io": "some avg10=0.00 total=2000000\nfull avg10=0.00 total=1000000\n",
    "proc/pressure/memory": "some avg10=0.00 total=0\nfull avg10=0.00 total=0\n",
}


def test_guest_time_is_not_counted_twice(plant: Plant) -> None:
    values = HostSensor(1, plant(MACHINE)).read()
    assert values["cpu_busy_s"] == (100 + 20 + 30 + 6 + 4) / TICKS_PER_S
    assert values["cpu_iowait_s"] == 50 / TICKS_PER_S
    assert values["cpu_steal_s"] == 7 / TICKS_PER_S


def test_the_busiest_core_is_known_from_the_second_reading_on(plant: Plant) -> None:
    host = HostSensor(1, plant(MACHINE))
    assert "busiest_core_share" not in host.read()
    later = "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 110 0 0 190 0 0 0 0 0 0\ncpu1 75 0 0 225 0 0 0 0 0 0\n"
    plant({"proc/stat": later})
    assert host.read()["busiest_core_share"] == pytest.approx(0.75)


def test_memory_and_swap_are_in_bytes(plant: Plant) -> None:
    values = HostSensor(1, plant(MACHINE)).read()
    assert values["memory_available_bytes"] == 5 * 1024
    assert values["swap_in_bytes"] % 3 == 0
    assert values["swap_in_bytes"]


def test_stalls_are_the_machines_without_a_group_of_the_job(plant: Plant) -> None:
    values = HostSensor(1, plant(MACHINE)).read()
    assert values["pressure_scope"] == "machine"
    assert (values["pressure_cpu_some_s"], values["pressure_io_some_s"], values["pressure_io_full_s"]) == (
        1.5,
        2,
        1,
    )
    assert "pressure_cpu_full_s" not in values


def test_stalls_throttling_and_memory_of_the_jobs_own_group_are_preferred(plant: Plant) -> None:
    root = plant(
        {
            **MACHINE,
            "proc/77/cgroup": "0::/job\n",
            "proc/77/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "sys/fs/cgroup/job/cgroup.type": "domain\n",
            "sys/fs/cgroup/job/cpu.pressure": "some avg10=0.00 total=250000\n",
            "sys/fs/cgroup/job/io.pressure": "some avg10=0.00 total=0\n",
            "sys/fs/cgroup/job/memory.current": "4096\n",
            "sys/fs/cgroup/job/cpu.stat": "nr_periods 10\nnr_throttled 2\nthrottled_usec 500000\n",
        }
    )
    values = HostSensor(77, root).read()
    assert (values["pressure_scope"], values["pressure_cpu_some_s"]) == ("cgroup", 0.25)
    assert (values["quota_periods"], values["throttled_periods"], values["throttled_s"]) == (10, 2, 0.5)
    assert values["cgroup_memory_bytes"] == 4096


def test_a_bare_tree_gives_gaps_and_no_values() -> None:
    host = HostSensor(1, Path("/nowhere/at/all"))
    assert host.read() == {}
    assert {gap.what for gap in host.gaps or []} == {"pressure stall information", "disk counters"}


def test_this_machine_counts_its_processors() -> None:
    assert float(HostSensor(1).read()["cpu_busy_s"]) > 0
