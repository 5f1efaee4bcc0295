"""Real children that wait in one known way are seen to wait in that way, at a bounded cost."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bottleneck_doctor.sense.blocked import MOST_THREADS, BlockedSampler
from bottleneck_doctor.sense.files import mount_of, read_mounts
from bottleneck_doctor.sense.schedule import MOST_CORE_SHARE
from bottleneck_doctor.sense.wait_channels import CLASSES
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
client.settimeout({timeout})
print("ready", flush=True)
client.recv(1)
"""
LOCAL = "import socket; a, b = socket.socketpair(); print('ready', flush=True); a.recv(1)"
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
def sampler() -> Iterator[Callable[[int], BlockedSampler]]:
    """Makes samplers of one process's first thread."""
    made: list[BlockedSampler] = []

    def make(pid: int) -> BlockedSampler:
        made.append(BlockedSampler(lambda: [(pid, pid)]))
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


def watch(
    one: BlockedSampler, until: Callable[[Counter[str]], bool], sensor: str = "blocked"
) -> Counter[str]:
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
        (RECEIVES.format(timeout="None"), "network"),
        (RECEIVES.format(timeout=60), "network"),
        (LOCAL, "pipe"),
        (PIPE, "pipe"),
        (POLLS, "poll"),
    ],
    ids=["sleeps", "spins", "locked", "receives", "receives with a timeout", "local socket", "pipe", "polls"],
)
def test_a_child_is_seen_in_what_it_waits_for(
    start: Start, sampler: Callable[[int], BlockedSampler], program: str, name: str
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
    start: Start, sampler: Callable[[int], BlockedSampler], cold_file: Path, program: str, name: str
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
    one = BlockedSampler(tuple, training=lambda: [loop], feeding=lambda: [feeder])
    counts = watch(one, lambda seen: seen.total() >= LOOKS, "loop")
    one.close()
    assert counts[name] > 0.8 * counts.total()


def test_looking_costs_about_a_hundredth_of_a_core_at_the_pace_it_chooses(start: Start) -> None:
    pids = [start(SLEEPS).pid for _ in range(4)]
    one = BlockedSampler(lambda: [(pid, pid) for pid in pids])
    costs = []
    for _ in range(300):
        began_ns = time.thread_time_ns()
        one.read(time.monotonic_ns())
        costs.append(time.thread_time_ns() - began_ns)
    one.close()
    recent_ns = sum(costs[-100:]) / 100
    assert recent_ns / one.pace.period_ns < 1.5 * MOST_CORE_SHARE


def test_a_thread_that_is_not_the_leader_is_found() -> None:
    inside, leave = threading.Event(), threading.Event()
    tids: list[int] = []

    def wait() -> None:
        tids.append(threading.get_native_id())
        inside.set()
        leave.wait()

    other = threading.Thread(target=wait)
    other.start()
    inside.wait()
    one = BlockedSampler(lambda: [(os.getpid(), tids[0])])
    counts = watch(one, lambda seen: seen.total() >= 10)
    leave.set()
    other.join()
    one.close()
    assert counts["lock"] >= 8


def test_a_child_that_ends_is_forgotten_and_harms_nobody(start: Start) -> None:
    child = start(SLEEPS)
    one = BlockedSampler(lambda: [(child.pid, child.pid), (2**22 + 1, 2**22 + 1)])
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


def test_each_process_gets_its_own_bins_in_order_of_time(plant: Plant) -> None:
    root = plant({**thread_files(7, "R", "running\n"), **thread_files(8, "D", "-1 0x0 0x0\n")})
    one = BlockedSampler(lambda: [(8, 8), (7, 7), (7, 7)], root)
    for t_ns in (0, 499_999_999, 500_000_000):
        one.read(t_ns)
    bins = [(s.t_ns, s.values["pid"], s.values["running"], s.values["fault"]) for s in one.samples()[:4]]
    assert bins == [(0, 7, 2, 0), (0, 8, 0, 2), (500_000_000, 7, 1, 0), (500_000_000, 8, 0, 1)]


def test_unknown_channels_are_kept_by_name(plant: Plant) -> None:
    root = plant(thread_files(7, "S", "61 0x0\n", "a_new_kernel_function"))
    one = BlockedSampler(lambda: [(7, 7)], root)
    one.read(0)
    one.read(1)
    channels = [sample.values for sample in one.samples() if sample.sensor == "channel"]
    assert channels == [{"name": "a_new_kernel_function", "class": "other", "count": 2}]


@pytest.mark.parametrize(("state", "name"), [("R", "running"), ("D", "storage"), ("S", "other")])
def test_without_permission_the_state_speaks_and_a_gap_says_so(plant: Plant, state: str, name: str) -> None:
    one = BlockedSampler(lambda: [(7, 7)], plant(thread_files(7, state)))
    one.read(0)
    assert one.samples()[0].values[name] == 1
    assert [gap.what for gap in one.gaps()] == ["what blocked threads wait for"]
    assert one.gaps()[0].do in (
        "run bdoc as the user who trains",
        "start the container with `--cap-add SYS_PTRACE`",
    )


def test_no_more_threads_are_watched_than_can_be_afforded(plant: Plant) -> None:
    pids = range(1, MOST_THREADS + 11)
    root = plant({name: text for pid in pids for name, text in thread_files(pid, "R", "running\n").items()})
    one = BlockedSampler(lambda: [(pid, pid) for pid in pids], root)
    one.read(0)
    assert len(one.samples()) == MOST_THREADS
    assert "10 fetching threads more" in one.gaps()[0].why
    for instant in range(1, 20):
        one.read(instant)
    one.close()
    assert {sample.values["pid"] for sample in one.samples()} == set(pids), "each has its turn"
