"""Reads what the job's processes hold: memory, descriptors, mapped files. Dear, so rarely, and of a few."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from .reading import read_pairs, read_text
from .traffic import Values

PERIOD_NS = 2_000_000_000
MOST_PROCESSES = 16  # the walk over one process's page tables takes milliseconds per gigabyte
MAPPED_AT = 3  # that reading, some seconds into the run: by then data sets are open
NO_DATA = ("/dev/", "/memfd:", "/SYSV", "/usr/lib/locale/")  # shared memory and the C library's own files


class Holdings:
    """Sums private memory over the processes, and finds the one nearest to its limit of open files; once, the
    largest amount of data that one of them has mapped."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = root / "proc"
        self._due_ns = 0
        self._readings = 0

    def read(self, now_ns: int, pids: Iterable[int]) -> Values:
        """One reading, nothing while the last one is fresh."""
        if now_ns < self._due_ns:
            return {}
        self._due_ns = now_ns + PERIOD_NS
        chosen = sorted(pids)[:MOST_PROCESSES]
        self._readings += 1
        values = {**self._memory(chosen), **self._descriptors(chosen)}
        if self._readings == MAPPED_AT:
            values["mapped_data_bytes"] = max(map(self._mapped, chosen), default=0)
        return values

    def _memory(self, pids: list[int]) -> Values:
        rollups = [read_pairs(self._proc / str(pid) / "smaps_rollup") for pid in pids]
        known = [one for one in rollups if "Private_Dirty" in one]
        if not known:
            return {}
        return {
            "job_private_bytes": 1024 * sum(one["Private_Dirty"] for one in known),
            "job_swapped_bytes": 1024 * sum(one.get("Swap", 0) for one in known),
            "job_measured_processes": len(known),
        }

    def _mapped(self, pid: int) -> int:
        """Bytes of files that are mapped and hold no code."""
        sizes: dict[str, int] = {}
        code = set()
        for line in (read_text(self._proc / str(pid) / "maps") or "").splitlines():
            span, mode, _, _, inode, *path = line.split(None, 5)
            if inode == "0" or not path or path[0].startswith(NO_DATA):
                continue
            first, last = (int(end, 16) for end in span.split("-"))
            sizes[path[0]] = sizes.get(path[0], 0) + last - first
            if "x" in mode:
                code.add(path[0])
        return sum(size for path, size in sizes.items() if path not in code and ".so" not in path)

    def _descriptors(self, pids: list[int]) -> Values:
        """Of the process with the largest share of its own limit in use."""
        found = [both for pid in pids if (both := self._open_files(pid)) is not None]
        if not found:
            return {}
        used, limit = max(found, key=lambda both: both[0] / both[1])
        return {"descriptors": used, "descriptor_limit": limit}

    def _open_files(self, pid: int) -> tuple[int, int] | None:
        try:
            used = len(os.listdir(self._proc / str(pid) / "fd"))
        except OSError:
            return None
        for line in (read_text(self._proc / str(pid) / "limits") or "").splitlines():
            if line.startswith("Max open files"):
                words = line.split()
                return (used, int(words[3])) if words[3].isdigit() and int(words[3]) > 0 else None
        return None
