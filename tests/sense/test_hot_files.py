"""A bounded number of files is named, each with where it lives."""

from __future__ import annotations

from bottleneck_doctor.sense.blocked import MOST_FILES, FileSampler
from bottleneck_doctor.sense.files import Mount
from tests.sense.conftest import Plant


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
