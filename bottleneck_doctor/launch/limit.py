"""Ends a training that has been seen long enough: first by the agent's hand, then by signals."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from ..model.progress import Progress
from .board import Board
from .signals import nudge

MARGIN_STEPS = 3  # ahead of the furthest rank, so that all ranks read the order before they reach it
MARGIN_S = 0.5
GRACE_S = 20.0  # for the last step, the script's own clean-up, and its last checkpoint


@dataclass
class Limit:
    """``max_steps`` and ``max_seconds`` as asked for; ``reached`` says which one ended the training."""

    board: Board
    max_steps: int | None
    max_seconds: float | None
    reached: str | None = None
    _due_ns: int = 0
    _sent: int = 0

    def arm(self) -> None:
        """Give the order that is known beforehand."""
        if self.max_steps is not None:
            self.board.stop_at(self.max_steps)

    def look(self, pid: int | None, progress: list[Progress], now_ns: int) -> None:
        """Called now and then while the training runs."""
        if not progress:
            return
        front = progress[0]
        self._check_time(front, now_ns)
        if self.max_steps is not None and front.trained >= self.max_steps and self.reached is None:
            self.reached, self._due_ns = "max-steps", now_ns
        if self.reached is not None and pid is not None:
            self._insist(pid, now_ns)

    def _check_time(self, front: Progress, now_ns: int) -> None:
        if self.max_seconds is None or self.reached is not None or not front.first_ns:
            return
        if now_ns - front.first_ns >= self.max_seconds * 1e9:
            step_s = (front.last_ns - front.first_ns) / 1e9 / max(1, front.trained)
            ahead = max(MARGIN_STEPS, round(MARGIN_S / max(step_s, 1e-6)))
            self.board.stop_at(front.trained + ahead)
            self.reached, self._due_ns = "max-seconds", now_ns + int(ahead * step_s * 1e9)

    def _insist(self, pid: int, now_ns: int) -> None:
        """A script that swallowed the end, or hangs, is interrupted, then terminated."""
        signals = (signal.SIGINT, signal.SIGTERM)
        if self._sent < len(signals) and now_ns - self._due_ns > (self._sent + 1) * GRACE_S * 1e9:
            nudge(pid, signals[self._sent])
            self._sent += 1
