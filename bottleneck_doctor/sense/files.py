"""Reads the small text files of /proc and /sys, where any of them may be missing, refused or odd; finds the
file behind another process's descriptor, and the file system and disk that a path is on."""

from __future__ import annotations

import os
import re
import shlex
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
LONGEST_BYTES = 1 << 20  # /proc/net/tcp of a busy server grows without bound; nothing we parse needs more


def read_text(path: Path) -> str | None:
    """The file's text, or None when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(LONGEST_BYTES).decode("utf-8", "replace")
    except OSError:
        return None


def read_number(path: Path) -> int | None:
    """The one integer that the file holds; ``max`` and anything else that is no number is None."""
    text = read_text(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def read_stat(proc: Path, pid: int) -> list[str]:
    """The fields of a process's ``stat`` from its state on, the third of proc(5); none where it has ended.
    The name before them may hold any character."""
    _, bracket, rest = (read_text(proc / str(pid) / "stat") or "").rpartition(")")
    return rest.split() if bracket else []


def age_s() -> float:
    """Seconds since this process was started, to a hundredth."""
    started_s = int(read_stat(Path("/proc"), os.getpid())[19]) / TICKS_PER_S
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_s


def children_of(proc: Path, pid: int) -> list[int]:
    """By the kernel's lists of the children of each thread."""
    folder = proc / str(pid) / "task"
    try:
        threads = os.listdir(folder)
    except OSError:
        return []
    texts = [read_text(folder / thread / "children") for thread in threads]
    return [int(word) for text in texts if text for word in text.split()]


def read_pairs(path: Path) -> dict[str, int]:
    """Lines of ``name value`` or ``name: value [unit]``, as in cpu.stat, vmstat, meminfo and task io."""
    pairs: dict[str, int] = {}
    for line in (read_text(path) or "").splitlines():
        words = line.split()
        if len(words) >= 2 and words[1].lstrip("-").isdigit():
            pairs[words[0].rstrip(":")] = int(words[1])
    return pairs


# How far Yama lets processes of one user look into each other: 0 all, 1 into their children and into those
# that name them, 2 root alone, 3 no process until the next boot. Kernels without it are as 0.
SCOPE = "proc/sys/kernel/yama/ptrace_scope"
NAMED, NOBODY = 1, 3
FIRST_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel: a machine's own, not a container's
ROOT = Path("/")


def yama_scope(root: Path = ROOT) -> int:
    """Yama's level; 0 where the kernel has no Yama."""
    return read_number(root / SCOPE) or 0


def tracer(root: Path = ROOT) -> int | None:
    """The process that a training must name for our py-spy to be let in: us, where Yama asks for that."""
    return os.getpid() if yama_scope(root) == NAMED else None


def in_container(root: Path = ROOT) -> bool:
    """Whether this is a container, whose host sets what Yama asks for."""
    if (root / ".dockerenv").exists() or (root / "run/.containerenv").exists():
        return True
    try:
        return os.readlink(root / "proc/self/ns/pid") != FIRST_NAMESPACE
    except OSError:
        return False


def why_refused(pid: int, root: Path = ROOT) -> str:
    """What is known to keep us out of ``pid``; "" where nothing is known."""
    owner, scope = _owner(pid, root), yama_scope(root)
    if owner not in (None, os.geteuid()):
        return f"it belongs to user {owner}, bdoc runs as user {os.geteuid()}"
    return f"kernel.yama.ptrace_scope is {scope}" if scope else ""


def what_allows(pid: int, root: Path = ROOT, program: str | None = None) -> str:
    """The one thing to do. ``program`` is what shall look; else bdoc itself, the training's ancestor."""
    scope = yama_scope(root)
    if _owner(pid, root) not in (None, os.geteuid()) and os.geteuid():
        return "run bdoc as the user who trains"
    if scope >= NOBODY:
        return "take kernel.yama.ptrace_scope=3 out of /etc/sysctl.d and boot again: nothing lowers it before"
    if in_container(root):
        return "start the container with `--cap-add SYS_PTRACE`"
    if scope:
        return f"sudo sysctl kernel.yama.ptrace_scope={scope - 1}"
    if program:  # a process that hides its memory; the capability looks behind that
        return f"sudo setcap cap_sys_ptrace+ep {shlex.quote(program)}"
    return "run bdoc as the user who trains"


def _owner(pid: int, root: Path) -> int | None:
    status = read_text(root / "proc" / str(pid) / "status") or ""
    for line in status.splitlines():
        words = line.split()
        if words[:1] == ["Uid:"] and len(words) > 1 and words[1].isdigit():
            return int(words[1])
    return None


NETWORK_TYPES = frozenset(
    "nfs nfs4 cifs smb3 smbfs ceph lustre 9p glusterfs beegfs gpfs afs orangefs pvfs2 wekafs davfs virtiofs "
    "fuse ocfs2 gfs2 ncpfs coda".split()
)
LOCAL_FUSE = frozenset(
    "fuseblk fuse.fuse-overlayfs fuse.lxcfs fuse.encfs fuse.gocryptfs fuse.ntfs-3g".split()
)

# Their rotational flag is the hypervisor's guess: virtio disks say 1 whatever lies beneath.
VIRTUAL_NAME = re.compile(r"^(vd|xvd|nbd|rbd|drbd|loop|ram|zram|ublk|pmem)")
VIRTUAL_MODEL = re.compile(
    r"qemu|vmware|virtual|vbox|msft|elastic block|persistentdisk|nvme_card-pd", re.IGNORECASE
)
DEEPEST_STACK = 8


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo. ``root`` is the part of the file system that is mounted at ``point``."""

    point: str
    fstype: str
    device: str
    number: str = ""
    root: str = "/"
    options: tuple[str, ...] = ()


def read_mounts(root: Path = Path("/"), pid: int | str = "self") -> list[Mount]:
    """The mount table as ``pid`` sees it, in the order of mounting; empty when unreadable."""
    lines = (read_text(root / "proc" / str(pid) / "mountinfo") or "").splitlines()
    return [mount for line in lines if (mount := _parse(line)) is not None]


def mount_of(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """The mount that holds ``path``; of several on one point the last, which hides the others."""
    held = [mount for mount in mounts if f"{path}/".startswith(mount.point.rstrip("/") + "/")]
    return max(reversed(held), key=lambda mount: len(mount.point), default=None)


def local_first(places: Sequence[str], root: Path = Path("/")) -> list[str]:
    """The places in their order, those on a network's file system behind the others: a file that is mapped
    there waits for a server."""
    mounts = read_mounts(root)

    def is_remote(place: str) -> bool:
        try:
            mount = mount_of(os.path.realpath(place), mounts)
        except OSError:  # a relative one, and the present folder is gone
            return False
        return mount is not None and is_network(mount.fstype)

    return sorted(places, key=is_remote)


def is_network(fstype: str) -> bool:
    """Whether reading there goes over a wire or through a user-space server."""
    return fstype in NETWORK_TYPES or (fstype.startswith("fuse.") and fstype not in LOCAL_FUSE)


def rotational(mount: Mount, root: Path = Path("/")) -> bool | None:
    """Whether a spinning disk lies beneath; None when unknown, as for virtual disks and networks."""
    number = mount.number
    if number.startswith("0:") and mount.device.startswith("/dev/"):  # anonymous, as btrfs's: ask its source
        try:
            device = os.stat(mount.device).st_rdev
        except OSError:
            return None
        number = f"{os.major(device)}:{os.minor(device)}"
    return _rotates(root / "sys/dev/block" / number, DEEPEST_STACK) if number else None


def _parse(line: str) -> Mount | None:
    left, dash, right = line.partition(" - ")
    words, types = left.split(), right.split(" ")
    if not dash or len(words) < 5 or len(types) < 2:
        return None
    options = tuple(types[2].split(",")) if len(types) > 2 else ()
    return Mount(_unescape(words[4]), types[0], _unescape(types[1]), words[2], _unescape(words[3]), options)


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def _rotates(link: Path, depth: int) -> bool | None:
    """Follows a partition to its disk and a mapped device to the disks below."""
    try:
        device = link.resolve(strict=True)
    except OSError:
        return None
    if (device / "partition").exists():
        device = device.parent
    slaves = sorted((device / "slaves").iterdir()) if (device / "slaves").is_dir() else []
    if slaves and depth:
        answers = [_rotates(slave, depth - 1) for slave in slaves]
        return None if None in answers else any(answers)
    model = " ".join(read_text(device / "device" / name) or "" for name in ("vendor", "model"))
    if VIRTUAL_NAME.match(device.name) or VIRTUAL_MODEL.search(model):
        return None
    flag = read_number(device / "queue/rotational")
    return None if flag is None else bool(flag)


@dataclass(frozen=True)
class Descriptor:
    """What a file descriptor leads to: file, network (a file elsewhere), inet, pipe (local socket), other."""

    kind: str
    path: str = ""


KEEP_LINK_NS = 100_000_000  # a loader that opens a file per sample reuses the number at once
KEEP_SOCKETS_NS = 1_000_000_000
MOST_REMEMBERED = 512
MOST_DESCRIPTORS = 1024
INTERNET = ("TCP", "UDP", "MPTCP", "SCTP", "SMC")
LISTENING = "0A"  # a server's socket brings no data by itself
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "file", stat.S_IFBLK: "file", stat.S_IFIFO: "pipe"}

Key = TypeVar("Key")
Answer = TypeVar("Answer")


class _Remembered(Generic[Key, Answer]):
    """Cached answers, each looked up again after ``keep_ns``."""

    def __init__(self, keep_ns: int, most: int = MOST_REMEMBERED) -> None:
        self._keep_ns, self._most = keep_ns, most
        self._known: dict[Key, tuple[int, Answer]] = {}

    def get(self, key: Key, now_ns: int, look: Callable[[], Answer]) -> Answer:
        """The answer known, or what a look gives."""
        known = self._known.get(key)
        if known is not None and now_ns - known[0] < self._keep_ns:
            return known[1]
        if len(self._known) >= self._most:
            self._known.clear()
        answer = look()
        self._known[key] = (now_ns, answer)
        return answer


class Descriptors:
    """Looks descriptors up in /proc; every answer is a guess of the moment, and none raises."""

    def __init__(self, mounts: Sequence[Mount], root: Path = Path("/")) -> None:
        self._mounts = mounts
        self._proc = root / "proc"
        self._links: _Remembered[tuple[int, int], Descriptor | None] = _Remembered(KEEP_LINK_NS)
        self._sockets: _Remembered[int, bool] = _Remembered(KEEP_SOCKETS_NS)
        # Of one network namespace, in which a job lives; two would take turns.
        self._connections: _Remembered[str, frozenset[str]] = _Remembered(KEEP_SOCKETS_NS, most=1)

    def resolve(self, pid: int, number: int, now_ns: int) -> Descriptor | None:
        """What descriptor ``number`` of ``pid`` leads to; None when it cannot be seen."""
        return self._links.get((pid, number), now_ns, lambda: self._look(pid, number))

    def has_inet(self, pid: int, now_ns: int) -> bool:
        """Whether ``pid`` holds a connected internet socket, looked up at most once a second."""
        return self._sockets.get(pid, now_ns, lambda: self._look_for_inet(pid, now_ns))

    def _look(self, pid: int, number: int) -> Descriptor | None:
        link = self._proc / str(pid) / "fd" / str(number)
        target = _target(link)
        if not target:
            return None
        if target.startswith("socket:["):
            return Descriptor("inet" if _protocol(link).startswith(INTERNET) else "pipe")
        if target.startswith("pipe:["):
            return Descriptor("pipe")
        if not target.startswith("/"):
            return Descriptor("other", target)
        mount = mount_of(target, self._mounts)
        if mount is not None and is_network(mount.fstype):
            return Descriptor("network", target)
        try:
            kind = KINDS.get(stat.S_IFMT(os.stat(link).st_mode), "other")
        except OSError:
            kind = "file"  # deleted or not visible from here, but it had a path
        return Descriptor(kind, target)

    def _look_for_inet(self, pid: int, now_ns: int) -> bool:
        folder = self._proc / str(pid) / "fd"
        try:
            links = [folder / name for name in os.listdir(folder)[:MOST_DESCRIPTORS]]
        except OSError:
            return False
        targets = ((link, _target(link)) for link in links)
        held = {
            target[8:-1]
            for link, target in targets
            if target.startswith("socket:[") and _protocol(link).startswith(INTERNET)
        }
        if not held:  # the tables cost milliseconds to read
            return False
        namespace = _target(self._proc / str(pid) / "ns" / "net")
        return not held.isdisjoint(self._connections.get(namespace, now_ns, lambda: self._connected(pid)))

    def _connected(self, pid: int) -> frozenset[str]:
        """Inodes of the internet sockets in the process's network namespace, listeners left out."""
        inodes: set[str] = set()
        for name in ("tcp", "tcp6", "udp", "udp6"):
            for line in (read_text(self._proc / str(pid) / "net" / name) or "").splitlines()[1:]:
                words = line.split()
                if len(words) > 9 and words[3] != LISTENING:
                    inodes.add(words[9])
        return frozenset(inodes)


def _protocol(link: Path) -> str:
    """The socket's protocol as the kernel names it: TCP, TCPv6, UDP, UNIX-STREAM and so on."""
    try:
        return os.getxattr(link, "system.sockprotoname").decode("ascii", "replace").rstrip("\0")
    except OSError:
        return ""


def _target(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
