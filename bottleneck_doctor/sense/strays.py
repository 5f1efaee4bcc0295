"""Finds processes of the job that left its tree: daemons that forked twice before anybody looked.

They are children of an ancestor of the job then, of init mostly, and still carry the run's own variable in
their environment. Taken for strangers, their CPU time would be left out of what the job costs.
"""

from __future__ import annotations

from pathlib import Path

from .reading import read_text

MARK = b"BDOC_RUN="
DEEPEST = 64  # ancestors that are asked


class Strays:
    """The orphans of one job. Each process is looked into once."""

    def __init__(self, root_pid: int, proc: Path) -> None:
        self._root_pid, self._proc = root_pid, proc
        self._mark = b""
        self._asked: set[int] = set()

    def find(self, members: set[int]) -> set[int]:
        """Those that were not there at the last call; ``members`` are known already."""
        self._mark = self._mark or self._mark_of(self._root_pid)
        if not self._mark:
            return set()
        orphans = {child for parent in self._ancestors() for child in self._children(parent)} - members
        fresh = orphans - self._asked
        self._asked = orphans  # the others are gone; their numbers may come again
        return {pid for pid in fresh if self._mark_of(pid) == self._mark}

    def _mark_of(self, pid: int) -> bytes:
        """The run that a process belongs to; empty where that is not said, or not to us."""
        try:
            words = (self._proc / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            return b""
        return next((word for word in words if word.startswith(MARK)), b"")

    def _ancestors(self) -> list[int]:
        found: list[int] = []
        pid = self._root_pid
        while pid > 1 and len(found) < DEEPEST:
            text = read_text(self._proc / str(pid) / "stat")
            words = text[text.rindex(")") + 2 :].split() if text and ")" in text else []
            pid = int(words[1]) if len(words) > 1 else 0
            if pid > 0:
                found.append(pid)
        return found

    def _children(self, pid: int) -> list[int]:
        text = read_text(self._proc / str(pid) / "task" / str(pid) / "children")
        return [int(word) for word in text.split()] if text else []
