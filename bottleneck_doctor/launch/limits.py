"""Ends a training that has been seen long enough: by the agent, then by signals; or tells when it has."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

from ..model.live import Progress
from .agent_counters import Board
from .signals import nudge

MARGIN_STEPS = 3  # ahead of the furthest rank, so that all ranks read the order before they reach it
MARGIN_S = 0.5
SWALLOWED_S = 20.0  # for a script that trains on, or hangs before it heard of the order
LAST_WORK_S = 120.0  # for one that trains no more: it may be writing its last checkpoint
INSISTENCE = (signal.SIGINT, signal.SIGTERM)


@dataclass
class Limit:
    """``max_steps`` and ``max_seconds`` as asked for; ``due`` is the one whose time has come, ``sent`` are
    the signals that had to follow."""

    board: Board
    max_steps: int | None
    max_seconds: float | None
    due: str | None = None
    sent: list[int] = field(default_factory=list)
    _stop_at: int = 0
    _due_ns: int = 0

    def arm(self) -> None:
        """Give the order that is known beforehand."""
        if self.max_steps is not None:
            self._order(self.max_steps)

    def look(self, pid: int | None, progress: list[Progress], now_ns: int) -> None:
        """Called now and then while the training runs."""
        if not progress:
            return
        front = progress[0]
        if self.due is None:
            self._check_steps(front, now_ns)
        if self.due is None:
            self._check_time(front, now_ns)
        elif pid is not None:
            self._insist(pid, front, now_ns)

    def stopped(self) -> str | None:
        """What ended the training, told from one that ended by itself before it heard the order."""
        if not self.sent and not self.board.stopped():
            return None
        return self.due or "max-steps"

    def excuses(self, exit_status: int) -> bool:
        """Whether the training left as one does that dies of a signal which we had to send."""
        return exit_status - 128 in self.sent

    def _check_steps(self, front: Progress, now_ns: int) -> None:
        if self.max_steps is not None and front.trained >= self.max_steps:
            self.due, self._due_ns = "max-steps", now_ns

    def _check_time(self, front: Progress, now_ns: int) -> None:
        if self.max_seconds is None or not front.first_ns:
            return
        if now_ns - front.first_ns >= self.max_seconds * 1e9:
            self.end("max-seconds", front, now_ns)

    def end(self, due: str, front: Progress, now_ns: int, at: int = 0) -> None:
        """Order the end for reason ``due``, as soon as all ranks can hear it, or when ``at`` is trained."""
        step_s = (front.last_ns - front.first_ns) / 1e9 / max(1, _distance(front))
        ahead = max(MARGIN_STEPS, round(MARGIN_S / max(step_s, 1e-6)), at - _distance(front))
        self._order(min(_distance(front) + ahead, self.max_steps or 1 << 62))
        self.due, self._due_ns = due, now_ns + int(ahead * step_s * 1e9)

    def _order(self, steps: int) -> None:
        self._stop_at = steps
        self.board.stop_at(steps)

    def _insist(self, pid: int, front: Progress, now_ns: int) -> None:
        """A script that swallowed the end, or hangs, is interrupted, then terminated."""
        trains_on = _distance(front) > self._stop_at + MARGIN_STEPS
        patience_s = SWALLOWED_S if trains_on else LAST_WORK_S
        if len(self.sent) < len(INSISTENCE) and now_ns - self._due_ns > patience_s * 1e9:
            nudge(pid, INSISTENCE[len(self.sent)])
            self.sent.append(INSISTENCE[len(self.sent)])
            self._due_ns = now_ns


def _distance(front: Progress) -> int:
    """Trained steps; of a loop that only reads, as for inference, its batches."""
    return front.trained or front.steps
