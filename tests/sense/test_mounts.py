"""Paths are traced to their mount, and mounts to disks whose flag can be believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottleneck_doctor.sense.files import Mount, is_network, local_first, mount_of, read_mounts, rotational
from tests.sense.conftest import Plant

TABLE = """\
22 1 8:1 / / rw,relatime shared:1 master:2 - ext4 /dev/sda1 rw,errors=remount-ro
30 22 0:44 / /data rw - nfs4 filer:/export rw,vers=4.2
31 22 8:17 /sub /data/my\\040set rw - xfs /dev/sdb1 rw
32 22 0:50 / /data/over rw - tmpfs tmpfs rw
33 22 0:51 / /data/over rw - fuse.s3fs s3fs rw
broken line
"""


def held(path: str, root: Path) -> str:
    """The file system type that holds ``path``."""
    mount = mount_of(path, read_mounts(root))
    return mount.fstype if mount else ""


@pytest.mark.parametrize(
    ("path", "fstype"),
    [
        ("/home/me/x.jpg", "ext4"),
        ("/", "ext4"),
        ("/data", "nfs4"),
        ("/data/train/x.jpg", "nfs4"),
        ("/database/x", "ext4"),
        ("/data/my set/x", "xfs"),
        ("/data/over/x", "fuse.s3fs"),
    ],
)
def test_the_longest_and_latest_mount_holds_a_path(plant: Plant, path: str, fstype: str) -> None:
    assert held(path, plant({"proc/self/mountinfo": TABLE})) == fstype


def test_a_line_tells_root_device_and_options(plant: Plant) -> None:
    mounts = read_mounts(plant({"proc/self/mountinfo": TABLE}))
    assert mounts[2] == Mount("/data/my set", "xfs", "/dev/sdb1", "8:17", "/sub", ("rw",))
    assert len(mounts) == 5


def test_without_a_table_nothing_is_held() -> None:
    assert read_mounts(Path("/nowhere/at/all")) == []
    assert mount_of("/data", []) is None


@pytest.mark.parametrize(
    "fstype", ["nfs", "nfs4", "cifs", "lustre", "ceph", "9p", "fuse.sshfs", "fuse.s3fs", "virtiofs"]
)
def test_network_file_systems_are_known(fstype: str) -> None:
    assert is_network(fstype)


@pytest.mark.parametrize("fstype", ["ext4", "xfs", "tmpfs", "overlay", "fuseblk", "fuse.fuse-overlayfs", ""])
def test_local_file_systems_are_not_network(fstype: str) -> None:
    assert not is_network(fstype)


def disk(plant: Plant, name: str, files: dict[str, str]) -> Path:
    """A root in which device 8:0 is the disk ``name`` with these files."""
    root = plant({f"sys/devices/{name}/{file}": text for file, text in files.items()})
    link = root / "sys/dev/block/8:0"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(root / "sys/devices" / name)
    return root


@pytest.mark.parametrize(
    ("name", "files", "spins"),
    [
        ("sda", {"queue/rotational": "1\n"}, True),
        ("nvme0n1", {"queue/rotational": "0\n"}, False),
        ("vda", {"queue/rotational": "1\n"}, None),
        ("loop3", {"queue/rotational": "0\n"}, None),
        ("sdb", {"queue/rotational": "1\n", "device/vendor": "VMware  \n"}, None),
        ("nvme1n1", {"queue/rotational": "0\n", "device/model": "Amazon Elastic Block Store\n"}, None),
        ("sdc", {"size": "1\n"}, None),
    ],
)
def test_only_a_real_disks_flag_is_believed(
    plant: Plant, name: str, files: dict[str, str], spins: bool | None
) -> None:
    assert rotational(Mount("/", "ext4", "/dev/x", "8:0"), disk(plant, name, files)) is spins


def test_a_partition_answers_with_its_disk(plant: Plant) -> None:
    root = plant({"sys/devices/sda/queue/rotational": "1\n", "sys/devices/sda/sda1/partition": "1\n"})
    (root / "sys/dev/block").mkdir(parents=True)
    (root / "sys/dev/block/8:1").symlink_to(root / "sys/devices/sda/sda1")
    assert rotational(Mount("/", "ext4", "/dev/sda1", "8:1"), root) is True


@pytest.mark.parametrize(("second", "spins"), [("0\n", False), ("1\n", True), (None, None)])
def test_a_mapped_device_spins_when_one_below_does(
    plant: Plant, second: str | None, spins: bool | None
) -> None:
    files = {"slaves/sda/queue/rotational": "0\n", "slaves/sdb/size": "1\n", "queue/rotational": "0\n"}
    if second is not None:
        files["slaves/sdb/queue/rotational"] = second
    assert rotational(Mount("/", "ext4", "/dev/dm-0", "8:0"), disk(plant, "dm-0", files)) is spins


@pytest.mark.parametrize("number", ["0:44", "259:9", ""])
def test_a_device_that_is_no_disk_is_unknown(plant: Plant, number: str) -> None:
    assert rotational(Mount("/", "nfs", "filer:/export", number), plant({"sys/": ""})) is None


def test_places_over_a_network_come_behind_the_others(plant: Plant) -> None:
    root = plant({"proc/self/mountinfo": TABLE})
    assert local_first(["/data/scratch", "/tmp", "/data/my set", "/data"], root) == [
        "/tmp", "/data/my set", "/data/scratch", "/data",
    ]  # fmt: skip
    assert local_first(["/data", "/tmp"], Path("/nowhere")) == ["/data", "/tmp"], "where nothing is known"
