"""A torch.profiler window of a few steps: operators by self CPU time, filed as a table."""

from __future__ import annotations

import sys

from . import wire
from .clocks import now
from .guard import quiet
from .pulse import state

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from typing import Any

    from .stop import Control

OPERATORS_AT_MOST = 40


class Window:
    """An open window; it closes itself after ``steps`` close looks.

    On CPU builds the pre-kineto profiler is used: starting kineto takes 1.2 s the first time and prints
    to the user's stderr (torch 2.13), the older one takes 7 ms and prints nothing.
    """

    def __init__(self, steps: int = 3) -> None:
        self.steps = steps
        self.start = 0
        self.begun = 0
        self.profiler: Any = None

    @quiet
    def open(self) -> None:
        """Begin, unless somebody else is profiling."""
        torch: Any = sys.modules["torch"]
        if torch.autograd._profiler_enabled():
            return
        from torch.autograd import profiler_legacy

        self.profiler = profiler_legacy.profile(use_cuda=False)
        self.start, self.begun = now(), state.trained
        self.profiler.__enter__()

    def look(self) -> bool:
        """Called at each close look while open; True when it is over."""
        if self.profiler is None:
            return True
        if state.trained - self.begun < self.steps:
            return False
        self.close()
        return True

    @quiet
    def close(self) -> None:
        """End, write the table, and say on the board that a window is done."""
        profiler, self.profiler = self.profiler, None
        profiler.__exit__(None, None, None)
        steps = max(1, state.trained - self.begun)
        rows = sorted(profiler.key_averages(), key=lambda row: -row.self_cpu_time_total)
        for row in rows[:OPERATORS_AT_MOST]:
            state.book.fact(
                fact="operator", name=row.key, calls=row.count / steps,
                self_cpu_s=row.self_cpu_time_total / 1e6 / steps,
            )  # fmt: skip
        state.row(wire.WINDOWED, self.start, now() - self.start, steps)


def attach(control: Control) -> None:
    """Let the supervisor's wish open a window at the next close look."""
    open_windows: list[Window] = []

    def wish() -> None:
        window = Window()
        window.open()
        open_windows.append(window)

    def look() -> None:
        if open_windows and open_windows[0].look():
            open_windows.clear()
            control.windows_done += 1
            state.book.post(wire.WINDOW, control.windows_done)

    control.on_profile, control.on_look = wish, look
