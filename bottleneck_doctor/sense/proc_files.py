"""Reads the small text files of /proc and /sys, where any of them may be missing, refused or odd."""

from __future__ import annotations

from pathlib import Path

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


def read_pairs(path: Path) -> dict[str, int]:
    """Lines of ``name value`` or ``name: value [unit]``, as in cpu.stat, vmstat, meminfo and task io."""
    pairs: dict[str, int] = {}
    for line in (read_text(path) or "").splitlines():
        words = line.split()
        if len(words) >= 2 and words[1].lstrip("-").isdigit():
            pairs[words[0].rstrip(":")] = int(words[1])
    return pairs
