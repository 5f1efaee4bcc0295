"""Reads the small text files of /proc and /sys, where any of them may be missing, refused or odd."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path

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
