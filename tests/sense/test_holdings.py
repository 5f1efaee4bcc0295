"""What processes hold: private memory summed, descriptors of the one nearest to its limit, read rarely."""

from __future__ import annotations

import os

from bottleneck_doctor.sense.process_tree import MAPPED_AT, PERIOD_NS, Holdings
from tests.sense.conftest import Plant, Start

ROLLUP = "Rss: 900 kB\nPrivate_Dirty: {dirty} kB\nSwap: 4 kB\n"
STATUS = "PPid:\t{parent}\nRssAnon:\t{own} kB\nVmSwap:\t4 kB\n"
LIMITS = (
    "Limit  Soft Limit  Hard Limit  Units\nMax open files            {soft}                4096      files\n"
)


def planted(plant: Plant) -> Holdings:
    files = {"proc/7/fd/0": "", "proc/7/fd/1": "", "proc/8/fd/0": ""}
    files |= {"proc/7/limits": LIMITS.format(soft=1024), "proc/8/limits": LIMITS.format(soft=2)}
    files |= {
        "proc/7/status": STATUS.format(parent=1, own=100),
        "proc/8/status": STATUS.format(parent=7, own=50),
    }
    return Holdings(plant(files))


def test_private_memory_is_summed_and_the_fullest_process_named(plant: Plant) -> None:
    values = planted(plant).read(1, [7, 8, 9])
    assert values["job_private_bytes"] == 150 * 1024
    assert values["job_measured_processes"] == 2
    assert (values["descriptors"], values["descriptor_limit"]) == (1, 2)


def test_a_fresh_reading_is_not_repeated(plant: Plant) -> None:
    holdings = planted(plant)
    assert holdings.read(1, [7])
    assert not holdings.read(PERIOD_NS, [7])
    assert holdings.read(PERIOD_NS + 1, [7])


def test_of_forked_workers_some_are_walked_and_stand_for_all(plant: Plant) -> None:
    files = {f"proc/{pid}/status": STATUS.format(parent=7 if pid > 7 else 1, own=900) for pid in range(7, 12)}
    files |= {f"proc/{pid}/cmdline": "python\0train.py\0" for pid in range(7, 12)}
    files |= {"proc/8/smaps_rollup": ROLLUP.format(dirty=10), "proc/9/smaps_rollup": ROLLUP.format(dirty=30)}
    files["proc/12/status"] = STATUS.format(parent=7, own=5)  # another program: it shares nothing
    files["proc/12/cmdline"] = "ffmpeg\0"
    values = Holdings(plant(files)).read(1, range(7, 13))
    assert values["job_private_bytes"] == (900 + 4 * 20 + 5) * 1024


MAPS = """\
1000-3000 r--p 00000000 08:01 11 /data/rows.bin
3000-4000 rw-s 00000000 08:01 11 /data/rows.bin
4000-9000 rw-p 00000000 00:00 0
5000-6000 r--p 00000000 08:01 12 /usr/bin/python3
6000-7000 r-xp 00000000 08:01 12 /usr/bin/python3
7000-8000 r--p 00000000 08:01 13 /usr/lib/libm.so.6
8000-9000 rw-s 00000000 00:01 14 /dev/shm/torch_1
9000-a000 r--p 00000000 08:01 15 /data/with a space
a000-b000 rw-p 00000000 00:00 0 [heap]
"""


def test_data_files_that_a_process_maps_are_summed_once(plant: Plant) -> None:
    """Code, shared memory and anonymous memory are no data files."""
    holdings = Holdings(plant({"proc/7/maps": MAPS}))
    read = [holdings.read(1 + turn * PERIOD_NS, [7, 8]) for turn in range(MAPPED_AT + 1)]
    assert [values.get("mapped_data_bytes") for values in read] == [None] * (MAPPED_AT - 1) + [0x4000, None]


def test_an_unlimited_process_has_no_share(plant: Plant) -> None:
    root = plant({"proc/7/fd/0": "", "proc/7/limits": LIMITS.format(soft="unlimited")})
    assert Holdings(root).read(1, [7]) == {}


def test_a_real_process_that_fills_its_memory_is_seen(start: Start) -> None:
    child = start(
        "import sys\nheld = bytearray(1 << 20)\nprint('ready', flush=True)\n"
        "sys.stdin.readline()\nheld = b'x' * (64 << 20)\nprint('full', flush=True)\nsys.stdin.read()"
    )
    before = Holdings().read(1, [child.pid])
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline() == "full\n"
    after = Holdings().read(1, [child.pid])
    assert float(after["job_private_bytes"]) - float(before["job_private_bytes"]) > 60 << 20
    assert float(after["descriptors"]) >= 3
    assert os.path.exists(f"/proc/{child.pid}")
