"""Descriptors, mounts, traffic and hot files; small files are read whatever is wrong with them."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from bottleneck_doctor.sense import files as module
from bottleneck_doctor.sense.blocked import MOST_FILES, FileSampler
from bottleneck_doctor.sense.files import (
    KEEP_LINK_NS,
    KEEP_SOCKETS_NS,
    Descriptors,
    Mount,
    is_network,
    local_first,
    mount_of,
    read_mounts,
    rotational,
)
from bottleneck_doctor.sense.host import Traffic
from bottleneck_doctor.sense.proc_files import read_number, read_pairs, read_text
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
    assert seen == ["file", "inet", "unix", "pipe", "pipe", "other"]


def test_a_file_on_a_network_mount_is_elsewhere(tmp_path: Path) -> None:
    descriptors = Descriptors([Mount("/", "ext4", "/dev/sda1"), Mount(str(tmp_path), "nfs4", "filer:/x")])
    with (tmp_path / "x").open("w") as file:
        assert kind(descriptors, file.fileno()) == "network"


def test_what_is_gone_or_hidden_is_none() -> None:
    descriptors = Descriptors([])
    assert descriptors.resolve(ME, 10_000, 0) is None
    assert descriptors.resolve(2**22 + 1, 0, 0) is None
    assert not descriptors.has_inet(2**22 + 1, 0)


def test_an_answer_is_remembered_briefly(tmp_path: Path) -> None:
    descriptors = Descriptors([])
    with (tmp_path / "x").open("w") as file:
        number = file.fileno()
        descriptors.resolve(ME, number, 0)
    remembered = descriptors.resolve(ME, number, KEEP_LINK_NS - 1)
    assert remembered is not None
    assert remembered.path == str(tmp_path / "x")
    assert descriptors.resolve(ME, number, KEEP_LINK_NS) != remembered


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


def test_a_pair_of_local_sockets_is_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = socket.socketpair()
    monkeypatch.setattr(os, "listdir", lambda _: [str(left.fileno()), str(right.fileno())])
    with left, right:
        assert not Descriptors([]).has_inet(ME, 0)


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


def test_a_file_is_counted_once_per_process_and_says_where_it_lives(plant: Plant) -> None:
    root = plant({"sys/devices/sda/queue/rotational": "1\n", "sys/dev/block/": ""})
    (root / "sys/dev/block/8:0").symlink_to(root / "sys/devices/sda")
    files = FileSampler([Mount("/data", "xfs", "/dev/sda", "8:0")], root)
    for t_ns, pid, path in [(1, 7, "/data/x"), (2, 7, "/data/x"), (3, 8, "/elsewhere/y")]:
        files.add(t_ns, pid, path)
    first, second = files.samples()
    home = {"mount": "/data", "fstype": "xfs", "device": "/dev/sda", "rotational": 1, "bytes": 0}
    assert (first.t_ns, first.sensor) == (1, "file")
    assert first.values == {"pid": 7, "path": "/data/x", "count": 2, **home}
    assert (second.values["fstype"], second.values["rotational"]) == ("", -1)


def test_of_many_files_some_are_kept() -> None:
    files = FileSampler([])
    for number in range(1000):
        files.add(number, 7, f"/data/{number}")
    assert len(files.samples()) == MOST_FILES


def test_what_cannot_be_read_is_none(plant: Plant) -> None:
    root = plant({"folder/": ""})
    assert read_text(root / "folder") is None
    assert read_text(root / "missing") is None
    assert read_number(root / "missing") is None
    assert read_pairs(root / "missing") == {}


def test_bytes_that_are_no_text_do_not_stop_the_reading(tmp_path: Path) -> None:
    (tmp_path / "stat").write_bytes(b"\xff\xfe 1")
    assert read_text(tmp_path / "stat") == "\ufffd\ufffd 1"


def test_numbers_and_words_are_told_apart(plant: Plant) -> None:
    root = plant({"max": "max\n", "seven": "7\n"})
    assert (read_number(root / "max"), read_number(root / "seven")) == (None, 7)


def test_pairs_come_with_or_without_colons_and_units(plant: Plant) -> None:
    root = plant({"pairs": "MemTotal:  12 kB\nnr_periods 3\nnode -1\nlonely\nname text\n"})
    assert read_pairs(root / "pairs") == {"MemTotal": 12, "nr_periods": 3, "node": -1}
