"""Only physical devices are counted, so that no byte counts twice."""

from __future__ import annotations

from bottleneck_doctor.sense.host import Traffic
from tests.sense.conftest import Plant

DISKS = """\
   8       0 sda 10 1 200 30 40 2 500 60 0 70 80 0 0 0 0
   8       1 sda1 10 1 200 30 40 2 500 60 0 70 80 0 0 0 0
 253       0 dm-0 10 0 200 30 40 0 500 60 0 70 80
 259       0 nvme0n1 1 0 2 3 4 0 5 6 0 7 8 0 0 0 0
   7       0 loop0 99 0 99 99 0 0 0 0 0 99 99
"""
LINKS = """\
Inter-|   Receive
 face |bytes    packets
    lo: 1000 1 0 0 0 0 0 0 1000 1 0 0 0 0 0 0
  eth0:    70 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0
docker0: 500 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0
"""
MOUNTS = """\
device /dev/sda1 mounted on / with fstype ext4
device filer:/export mounted on /data with fstype nfs4 statvers=1.1
\tage:\t100
\tbytes:\t1 2 3 4 5 6 7 8
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 1 1 0
\t        READ: 10 10 0 2000 400000 30 500 540 0
\t     GETATTR: 5 5 0 800 900 2 40 45
device filer:/home mounted on /home with fstype nfs statvers=1.1
\tper-op statistics
\t        READ: 1 1 0 200 1000 3 50 54
"""


def test_disks_are_summed_without_partitions_and_mapped_devices(plant: Plant) -> None:
    root = plant({"proc/diskstats": DISKS, "sys/block/sda/device/": "", "sys/block/nvme0n1/device/": ""})
    plant({"sys/block/dm-0/": "", "sys/block/loop0/": ""})
    assert Traffic(root).read() == {
        "disks": 2,
        "disk_reads": 11,
        "disk_read_bytes": 202 * 512,
        "disk_read_s": 0.033,
        "disk_writes": 44,
        "disk_write_bytes": 505 * 512,
        "disk_busy_s": 0.077,
        "disk_queue_s": 0.088,
    }


def test_without_sys_disks_are_known_by_their_names(plant: Plant) -> None:
    assert Traffic(plant({"proc/diskstats": DISKS})).read()["disks"] == 2


def test_physical_links_are_counted_where_there_are_some(plant: Plant) -> None:
    root = plant({"proc/net/dev": LINKS, "sys/class/net/docker0/device/": ""})
    assert Traffic(root).read() == {"network_received_bytes": 500}


def test_in_a_container_the_usual_names_are_counted(plant: Plant) -> None:
    assert Traffic(plant({"proc/net/dev": LINKS})).read() == {"network_received_bytes": 70}


def test_nfs_operations_of_all_mounts_are_summed(plant: Plant) -> None:
    assert Traffic(plant({"proc/self/mountstats": MOUNTS})).read() == {
        "nfs_operations": 17,
        "nfs_received_bytes": 24 + 400_000 + 900 + 1000,
        "nfs_queue_s": 0.035,
        "nfs_round_trip_s": 0.591,
        "nfs_s": 0.64,
    }


def test_without_nfs_nothing_is_said_of_it(plant: Plant) -> None:
    assert Traffic(plant({"proc/self/mountstats": MOUNTS.splitlines()[0]})).read() == {}
