"""Says who may look into another process here, and the one thing to do where nobody may."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from .proc_files import read_number, read_text

# How far Yama lets processes of one user look into each other: 0 all, 1 into their children and into those
# that name them, 2 root alone, 3 nobody until the next boot. Kernels without it are as 0.
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
