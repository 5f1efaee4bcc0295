"""Descriptors, mounts, traffic and hot files; small files are read whatever is wrong with them."""

import os
import socket
from pathlib import Path

import pytest

from bottleneck_doctor.sense import files as module
from bottleneck_doctor.sense.files import (
    KEEP_SOCKETS_NS,
    Descriptors,
    Mount,
    is_network,
    local_first,
    mount_of,
    read_mounts,
    rotational,
)
from bottleneck_doctor.sense.host import HostSensor
from tests.sense.conftest import Plant

ME = os.getpid()


def kind(descriptors: Descriptors, number: int) -> str | None:
    """What our own descriptor ``number`` is seen as."""
    found = descriptors.resolve(ME, number, 0)
    return found and found.kind


def test_each_kind_is_told_apart(tmp_path: Path) -> None:
    descriptors = Descriptors(read_mounts())
    reader, writer = os.pipe()
    with (
        (tmp_path / "x").open("w") as file,
        socket.socket() as inet,
        socket.socket(socket.AF_UNIX) as unix,
        open("/dev/null") as null,
    ):
        seen = [
            kind(descriptors, one if isinstance(one, int) else one.fileno())
            for one in (file, inet, unix, reader, writer, null)
        ]
        assert descriptors.resolve(ME, file.fileno(), 0) == module.Descriptor("file", str(tmp_path / "x"))
    os.close(reader)
    os.close(writer)
    assert seen == ["file", "inet", "pipe", "pipe", "pipe", "other"]


def test_a_file_on_a_network_mount_is_elsewhere(tmp_path: Path) -> None:
    descriptors = Descriptors([Mount("/", "ext4", "/dev/sda1"), Mount(str(tmp_path), "nfs4", "filer:/x")])
    with (tmp_path / "x").open("w") as file:
        assert kind(descriptors, file.fileno()) == "network"


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_only_a_connected_socket_makes_a_process_connected(
    family: socket.AddressFamily, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        server = socket.create_server(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), family=family)
    except OSError as error:
        pytest.skip(f"no loopback of {family.name} here: {error}")
    mine = {server.fileno()}
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: [n for n in listed(path) if int(n) in mine])
    descriptors = Descriptors([])
    with server:
        assert not descriptors.has_inet(ME, 0)
        with socket.create_connection(server.getsockname()[:2]) as client:
            mine.add(client.fileno())
            assert not descriptors.has_inet(ME, KEEP_SOCKETS_NS - 1), "looked up more than once a second"
            assert descriptors.has_inet(ME, 2 * KEEP_SOCKETS_NS)


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
    [("/", "ext4"), ("/data/train/x.jpg", "nfs4"), ("/data/my set/x", "xfs"), ("/data/over/x", "fuse.s3fs")],
)
def test_the_longest_and_latest_mount_holds_a_path(plant: Plant, path: str, fstype: str) -> None:
    assert held(path, plant({"proc/self/mountinfo": TABLE})) == fstype


def test_network_file_systems_are_known() -> None:
    assert all(map(is_network, ("nfs4", "lustre", "9p", "fuse.sshfs", "virtiofs")))
    assert not any(map(is_network, ("ext4", "tmpfs", "overlay", "fuseblk", "fuse.fuse-overlayfs", "")))


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
        ("loop3", {"queue/rotational": "0\n"}, None),
        ("sdb", {"queue/rotational": "1\n", "device/vendor": "VMware  \n"}, None),
        ("nvme1n1", {"queue/rotational": "0\n", "device/model": "Amazon Elastic Block Store\n"}, None),
    ],
)
def test_only_a_real_disks_flag_is_believed(
    plant: Plant, name: str, files: dict[str, str], spins: bool | None
) -> None:
    assert rotational(Mount("/", "ext4", "/dev/x", "8:0"), disk(plant, name, files)) is spins


@pytest.mark.parametrize(("second", "spins"), [("0\n", False), ("1\n", True), (None, None)])
def test_a_mapped_device_spins_when_one_below_does(
    plant: Plant, second: str | None, spins: bool | None
) -> None:
    files = {"slaves/sda/queue/rotational": "0\n", "slaves/sdb/size": "1\n", "queue/rotational": "0\n"}
    if second is not None:
        files["slaves/sdb/queue/rotational"] = second
    assert rotational(Mount("/", "ext4", "/dev/dm-0", "8:0"), disk(plant, "dm-0", files)) is spins


def test_places_over_a_network_come_behind_the_others(plant: Plant) -> None:
    root = plant({"proc/self/mountinfo": TABLE})
    assert local_first(["/data/scratch", "/tmp", "/data/my set", "/data"], root) == [
        "/tmp", "/data/my set", "/data/scratch", "/data",
    ]  # fmt: skip
    assert local_first(["/data", "/tmp"], Path("/nowhere")) == ["/data", "/tmp"], "where nothing is known"


DISKS = """\
   8       0 sda 10 1 200 30 40 2 500 60 0 70 80 0 0 0 0
   8       1 sda1 10 1 200 30 40 2 500 60 0 70 80 0 0 0 0
 253       0 dm-0 10 0 200 30 40 0 500 60 0 70 80
 259       0 nvme0n1 1 0 2 3 4 0 5 6 0 7 8 0 0 0 0
   7       0 loop0 99 0 99 99 0 0 0 0 0 99 99
"""


@pytest.mark.parametrize(
    "blocks",
    [
        {f"sys/block/{name}": "" for name in ("sda/device/", "nvme0n1/device/", "dm-0/", "loop0/")},
        {},  # then they are known by their names
    ],
)
def test_disks_are_summed_without_partitions_and_mapped_devices(plant: Plant, blocks: dict[str, str]) -> None:
    values = HostSensor(1, plant({"proc/diskstats": DISKS, **blocks})).read()
    assert {name: value for name, value in values.items() if name.startswith("disk")} == {
        "disk_read_bytes": 202 * 512,
        "disk_busy_s": 0.077,
        "disk_queue_s": 0.088,
    }
