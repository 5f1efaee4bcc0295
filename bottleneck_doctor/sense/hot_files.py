"""Counts the files that fetches were seen waiting for: a bounded number of them, with where each lives."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..model.sample import Sample
from .mounts import Mount, is_network, mount_of, rotational

MOST_FILES = 64


@dataclass
class _Seen:
    t_ns: int
    count: int


class HotFiles:
    """Keeps the first files seen: of millions of small ones, a sample says where they live."""

    def __init__(self, mounts: Sequence[Mount], root: Path = Path("/")) -> None:
        self._mounts = mounts
        self._root = root
        self._seen: dict[tuple[int, str], _Seen] = {}

    def add(self, t_ns: int, pid: int, path: str) -> None:
        """Counts one wait of ``pid`` for ``path``."""
        seen = self._seen.get((pid, path))
        if seen is not None:
            seen.count += 1
        elif len(self._seen) < MOST_FILES:
            self._seen[pid, path] = _Seen(t_ns, 1)

    def samples(self) -> list[Sample]:
        """One sample per file: where it lives, and whether its disk spins: 1, 0, or -1 when unknown."""
        return [
            Sample(seen.t_ns, "file", {"pid": pid, "path": path, "count": seen.count, **self._home(path)})
            for (pid, path), seen in self._seen.items()
        ]

    def _home(self, path: str) -> dict[str, float | str]:
        mount = mount_of(path, self._mounts)
        if mount is None:
            return {"mount": "", "fstype": "", "device": "", "rotational": -1, "bytes": 0}
        spins = rotational(mount, self._root)
        return {
            "mount": mount.point,
            "fstype": mount.fstype,
            "device": mount.device,
            "rotational": -1 if spins is None else int(spins),
            "bytes": 0 if is_network(mount.fstype) else _size(path),  # a lost server would hold us up
        }


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
