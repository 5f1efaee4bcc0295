"""Tells a training that hangs from one that works, by what its agents post while it runs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from ..launch import run_registry
from ..launch.board import Board
from ..launch.folder import PREFIX
from .limits import Limits

SETTLING_STEPS = 10  # in which compilers and tuners may take as long as a start


@dataclass
class Stillness:
    """One trial's progress. ``trained`` steps so far, of the process that has come furthest; ``is_over`` when
    none of those that trained lives."""

    place: Path
    limits: Limits
    started_ns: int = field(default_factory=time.monotonic_ns)
    trained: int = 0
    is_over: bool = False
    _board: Board | None = None

    def look(self, now_ns: int) -> str:
        """Why the trial must be taken to hang; "" while it moves."""
        newest_ns = self._newest_ns()
        if self.is_over:
            return ""  # what bdoc still has to write is not the training's silence
        if newest_ns is None:
            waited_s = (now_ns - self.started_ns) / 1e9
            late = waited_s > self.limits.first_batch_s
            return f"no first batch within {self.limits.first_batch_s:.0f} s" if late else ""
        settles = self.trained < SETTLING_STEPS
        may_s = max(self.limits.silence_s, self.limits.first_batch_s if settles else 0.0)
        if (now_ns - newest_ns) / 1e9 <= may_s:
            return ""
        if self.trained >= self.limits.steps:
            return f"it did not end within {may_s:.0f} s of its last step"
        return f"no batch for {may_s:.0f} s, after {self.trained} steps"

    def _newest_ns(self) -> int | None:
        """When the newest batch of all processes came; None before the first."""
        if self._board is None:
            folder = next(self.place.glob(PREFIX + "*"), None)
            if folder is None:
                return None
            self._board = Board(folder, in_command=False)
        self._board.refresh()
        progress = self._board.progress()
        if not progress:
            return None
        self.trained = max(one.trained or one.steps for one in progress)
        self.is_over = all(run_registry.lifetime(one.pid) is None for one in progress)
        return max(one.last_ns for one in progress)
