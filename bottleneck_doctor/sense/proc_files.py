"""Reads the small text files of /proc and /sys, where any of them may be missing, refused or odd."""

from __future__ import annotations

import os
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
