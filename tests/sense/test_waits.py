"""What threads wait for: channels, system calls, descriptors, and who holds them."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bottleneck_doctor.sense.files import KEEP_LINK_NS, mount_of, read_mounts
from bottleneck_doctor.sense.wait_sampler import (
    CLASSES,
    MOST_FILES,
    MOST_THREADS,
    Bins,
    Descriptor,
    Wait,
    WaitSampler,
    classify,
)
from tests.sense.conftest import Plant, Start

LOOKS = 60
ENOUGH = 8
PATIENCE_S = 10.0

SLEEPS = "print('ready', flush=True); import time; time.sleep(60)"
SPINS = "print('ready', flush=True)\nwhile True: pass"
LOCKED = (
    "import threading; lock = threading.Lock(); lock.acquire(); print('ready', flush=True); lock.acquire()"
)
RECEIVES = """
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
print("ready", flush=True)
client.recv(1)
"""
PIPE = "import os; r, w = os.pipe(); print('ready', flush=True); os.read(r, 1)"
POLLS = "import os, select; p = select.poll(); p.register(os.pipe()[0]); print('ready', flush=True); p.poll()"
READS = """
import os, random, sys
file = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(file).st_size
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
print("ready", flush=True)
while True:
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    for _ in range(100):
        os.pread(file, 100_000, random.randrange(size - 100_000))
"""
FAULTS = """
import mmap, os, random, sys
file = os.open(sys.argv[1], os.O_RDONLY)
data = mmap.mmap(file, 0, prot=mmap.PROT_READ)
data.madvise(mmap.MADV_RANDOM)
print("ready", flush=True)
while True:
    data.madvise(mmap.MADV_DONTNEED)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    for _ in range(2000):
        data[random.randrange(len(data))]
"""


@pytest.fixture
def sampler() -> Iterator[Callable[[int], WaitSampler]]:
    """Makes samplers of one process's first thread."""
    made: list[WaitSampler] = []

    def make(pid: int) -> WaitSampler:
        made.append(WaitSampler(lambda: [(pid, pid)]))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def cold_file(tmp_path: Path) -> Path:
    """A file on a disk, out of the page cache."""
    mount = mount_of(str(tmp_path), read_mounts())
    if mount is None or mount.fstype in ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs"):
        pytest.skip(f"{tmp_path} lies in memory, where no read is cold")
    path = tmp_path / "cold"
    with path.open("wb") as file:
        for _ in range(64):
            file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


def watch(one: WaitSampler, until: Callable[[Counter[str]], bool], sensor: str = "blocked") -> Counter[str]:
    """Looks every few milliseconds until enough was seen; the counts by class."""
    deadline_s = time.monotonic() + PATIENCE_S
    counts: Counter[str] = Counter()
    while not until(counts) and time.monotonic() < deadline_s:
        one.read(time.monotonic_ns())
        counts = Counter()
        for sample in one.samples():
            if sample.sensor == sensor:
                counts.update({name: int(sample.values[name]) for name in CLASSES})
        time.sleep(0.003)  # the child's time, not ours: it must get on between two looks
    return counts


@pytest.mark.parametrize(
    ("program", "name"),
    [
        (SLEEPS, "sleep"),
        (SPINS, "running"),
        (LOCKED, "lock"),
        (RECEIVES, "network"),
        (PIPE, "pipe"),
        (POLLS, "poll"),
    ],
    ids=["sleeps", "spins", "locked", "receives", "pipe", "polls"],
)
def test_a_child_is_seen_in_what_it_waits_for(
    start: Start, sampler: Callable[[int], WaitSampler], program: str, name: str
) -> None:
    one = sampler(start(program).pid)
    counts = watch(one, lambda seen: seen.total() >= LOOKS)
    assert counts.most_common(1)[0][0] == name
    assert counts[name] > 0.8 * counts.total()
    assert one.gaps() == []


@pytest.mark.parametrize(
    ("program", "name"), [(READS, "storage"), (FAULTS, "fault")], ids=["reads", "faults"]
)
def test_cold_reads_are_storage_and_cold_mapped_pages_faults(
    start: Start, sampler: Callable[[int], WaitSampler], cold_file: Path, program: str, name: str
) -> None:
    one = sampler(start(program, str(cold_file)).pid)
    counts = watch(one, lambda seen: seen.total() - seen["running"] >= LOOKS)
    blocked = counts.total() - counts["running"]
    if blocked < ENOUGH:
        pytest.skip(f"the disk answers faster than can be seen: {blocked} blocked of {counts.total()} looks")
    assert counts[name] > 0.8 * blocked
    files = [sample.values["path"] for sample in one.samples() if sample.sensor == "file"]
    # The program that faults reads its file, too: dropping its pages writes and waits.
    assert files == [str(cold_file)] or (name == "fault" and not files)


FED = """
import queue, threading
ready = queue.Queue()
def feed():
    print("ready", threading.get_native_id(), sep="\\n", flush=True)
    {work}
threading.Thread(target=feed, daemon=True).start()
ready.get()
"""


@pytest.mark.parametrize(
    ("work", "name"),
    [
        ("while True: sum(range(10000))", "made"),
        ("import time; time.sleep(60)", "sleep"),
        ("queue.Queue().get()", "lock"),  # whom that one waits for nobody knows
    ],
    ids=["computes", "sleeps", "waits itself"],
)
def test_a_loop_that_waits_for_a_thread_waits_for_what_that_one_does(
    start: Start, work: str, name: str
) -> None:
    child = start(FED.format(work=work))
    assert child.stdout is not None
    loop, feeder = (child.pid, child.pid), (child.pid, int(child.stdout.readline()))
    one = WaitSampler(tuple, training=lambda: [loop], feeding=lambda: [feeder])
    counts = watch(one, lambda seen: seen.total() >= LOOKS, "loop")
    one.close()
    assert counts[name] > 0.8 * counts.total()


def test_a_child_that_ends_is_forgotten_and_harms_nobody(start: Start) -> None:
    child = start(SLEEPS)
    one = WaitSampler(lambda: [(child.pid, child.pid), (2**22 + 1, 2**22 + 1)])
    one.read(0)
    child.kill()
    child.wait()
    before = one.samples()
    one.read(1)
    one.read(2)
    assert one.samples() == before
    assert one.gaps() == []
    one.close()


def thread_files(pid: int, state: str, call: str | None = None, channel: str = "0") -> dict[str, str]:
    """The files of a process's first thread."""
    folder = f"proc/{pid}/task/{pid}"
    files = {f"{folder}/stat": f"{pid} (python) {state} 1\n", f"{folder}/wchan": channel}
    return files if call is None else {**files, f"{folder}/syscall": call}


@pytest.mark.parametrize(("state", "name"), [("R", "running"), ("D", "storage"), ("S", "other")])
def test_without_permission_the_state_speaks_and_a_gap_says_so(plant: Plant, state: str, name: str) -> None:
    one = WaitSampler(lambda: [(7, 7)], root=plant(thread_files(7, state)))
    one.read(0)
    assert one.samples()[0].values[name] == 1
    assert [gap.what for gap in one.gaps()] == ["what blocked threads wait for"]
    assert one.gaps()[0].do in (
        "run bdoc as the user who trains",
        "start the container with `--cap-add SYS_PTRACE`",
    )


def test_a_file_that_is_waited_for_says_where_it_lives(plant: Plant) -> None:
    root = plant({
        **thread_files(7, "D", "0 0x3 0x0\n", "folio_wait_bit"), "proc/7/fd/": "", "sys/dev/block/": "",
        "proc/self/mountinfo": "22 1 8:0 / / rw - xfs /dev/sda rw\n",
        "sys/devices/sda/queue/rotational": "1\n",
    })  # fmt: skip
    (root / "proc/7/fd/3").symlink_to("/data/x")
    (root / "sys/dev/block/8:0").symlink_to(root / "sys/devices/sda")
    one = WaitSampler(lambda: [(7, 7)], root=root)
    for number in range(1000):
        one.read(number * KEEP_LINK_NS)
        (root / "proc/7/fd/3").unlink()
        (root / "proc/7/fd/3").symlink_to(f"/data/{number}")
    files = [sample.values for sample in one.samples() if sample.sensor == "file"]
    assert files[0] == {"pid": 7, "path": "/data/x", "fstype": "xfs", "rotational": 1, "bytes": 0}
    assert len(files) == MOST_FILES, "of many some are kept"


def test_no_more_threads_are_watched_than_can_be_afforded(plant: Plant) -> None:
    pids = range(1, MOST_THREADS + 11)
    root = plant({name: text for pid in pids for name, text in thread_files(pid, "R", "running\n").items()})
    one = WaitSampler(lambda: [(pid, pid) for pid in pids], root=root)
    one.read(0)
    assert len(one.samples()) == MOST_THREADS
    assert "10 fetching threads more" in one.gaps()[0].why
    for instant in range(1, 20):
        one.read(instant)
    one.close()
    assert {sample.values["pid"] for sample in one.samples()} == set(pids), "each has its turn"


def test_a_full_table_widens_and_loses_nothing() -> None:
    bins = Bins(width_ns=10, most=4)
    for t_ns in range(0, 1000, 10):
        bins.add(t_ns, 7, "storage")
    rows = bins.rows()
    assert len(rows) <= 4
    assert sum(counts["storage"] for _, _, counts in rows) == 100
    assert [t_ns % bins.width_ns for t_ns, _, _ in rows] == [0] * len(rows)


FILE, INET, PIPED = Descriptor("file", "/data/x"), Descriptor("inet"), Descriptor("pipe")
TTY, MOUNTED = Descriptor("other", "/dev/pts/1"), Descriptor("network", "/nfs/x")


@pytest.mark.parametrize(
    ("wait", "descriptor", "name"),
    [
        (Wait("D", "folio_wait_bit_common", "descriptor", "pread64"), FILE, "storage"),
        (Wait("R", "", "descriptor", "read"), FILE, "storage"),
        (Wait("D", "jbd2_log_wait_commit", "descriptor", "fdatasync"), FILE, "written"),
        (Wait("D", "", "path", "rename"), None, "written"),
        (Wait("D", "folio_wait_writeback", "other", ""), None, "written"),
        (Wait("D", "rpc_wait_bit_killable", "descriptor", "fsync"), FILE, "remote"),
        (Wait("D", "folio_wait_bit_common", "fault"), None, "fault"),
        (Wait("D", "rwsem_down_read_slowpath", "fault"), None, "lock"),
        (Wait("S", "unix_stream_read_generic", "descriptor", "recvfrom"), PIPED, "pipe"),
        (Wait("S", "rpc_wait_bit_killable", "descriptor", "read"), FILE, "remote"),
        (Wait("D", "folio_wait_bit_common", "descriptor", "read"), MOUNTED, "remote"),
        (Wait("S", "hrtimer_nanosleep", "sleep", "clock_nanosleep"), None, "sleep"),
        (Wait("S", "", "lock", "futex"), None, "lock"),
        (Wait("S", "poll_schedule_timeout.constprop.0", "poll", "poll"), None, "poll"),
        (Wait("D", "io_schedule", "other", ""), None, "storage"),
        (Wait("S", "", ""), None, "other"),
    ],
)
def test_a_wait_has_a_class(wait: Wait, descriptor: Descriptor | None, name: str) -> None:
    assert classify(wait, descriptor, has_inet=False) == name
