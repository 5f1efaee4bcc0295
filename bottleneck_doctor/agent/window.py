"""A profiler's window on an accelerator: kineto records some steps, and nobody ever waits for the device.

The first steps under the tracer are slow and not recorded. The window stays open after its last step until
the device has come past it, seen at later arrivals. The trace goes into the run folder; taking it apart is
the supervisor's work. Not yet proven on hardware.
"""

from __future__ import annotations

import os

from . import wire
from .clocks import now
from .profiler import STRANGERS_AT_MOST
from .pulse import state
from .types import Any, FrameType

WARM_STEPS = 2  # under the tracer, not recorded
STEPS = 6  # recorded: where the device begins with the second, only the first says
DRAIN_NS = 2_000_000_000  # until the device should have come past the last step: a full queue is a thousand
# launches long, 20 ms to a second of kernels, but of graphs it may be far more
STEPS_AT_LEAST = 2  # then one is left that is measured
ENOUGH_NS = 200_000_000  # recorded in fewer steps: an operator is issued in 10 us, takes 1 kB of the trace
LONG_NS = 500_000_000  # and 50 us of the loop's time when that ends, so that two such steps must do
SLOW_NS = 2_000_000_000  # one step of such a length is enough to warm up
ROOM_BYTES = 256 << 20  # free where the trace will be written, at least


class TraceSpan:
    """A named stretch of the trace, until ``end``."""

    def __init__(self, stretch: Any) -> None:
        self.stretch = stretch
        stretch.__enter__()

    def end(self) -> None:
        """It is over."""
        try:
            self.stretch.__exit__(None, None, None)
        except Exception:  # the trace was ended meanwhile
            pass


class TraceWindow:
    """An open window, told of every arrival by ``over``. It lets no exception out."""

    def __init__(self, accelerator: Any) -> None:
        self.accelerator = accelerator
        self.thread = state.thread()
        self.trace: Any = None
        self.start = self.begun = self.ended = 0
        self.warmed = self.steps = self.updates = self.strangers = 0
        self.loader = 0
        self.short = False  # the loop was left before there was enough to be measured
        self.last: Any = None  # the mark behind the last step

    def open(self) -> None:
        """Begin to warm up, unless somebody else profiles or there is no room."""
        self.start = now()
        try:
            trace = self.accelerator.tracer() if _room() else "no room for a trace in the run folder"
            if isinstance(trace, str):
                raise RuntimeError(trace)
            self.trace = trace
            trace.prepare()
        except Exception as refusal:
            self._give_up(refusal)

    def over(self, loader: int) -> bool:
        """The loop asks ``loader`` for its next batch, 0 = it has none: whether the window is over now."""
        if self.trace is None:
            return True
        if state.thread() != self.thread:
            self.strangers += 1
            return self.strangers > STRANGERS_AT_MOST
        try:
            return self._arrived(loader)
        except Exception as refusal:
            self._give_up(refusal)
            return True

    def leave(self) -> None:
        """The process ends or forks: what is recorded may do."""
        if self.trace is not None:
            try:
                self.ended = self.ended or now()
                self._save()
            except Exception as refusal:
                self._give_up(refusal)

    def name(self, kind: str, frame: FrameType | None) -> TraceSpan | None:
        """Name what begins now on this thread in the trace, ``bdoc#kind#site``; None while there is none."""
        if self.trace is None or not self.begun:
            return None
        try:
            return TraceSpan(self.trace.range("bdoc#%s#%d" % (kind, state.site(kind, frame))))
        except Exception:
            return None

    def _arrived(self, loader: int) -> bool:
        if self.ended:
            return self._drained()
        if not self.begun:
            self.warmed += 1
            if self.warmed < WARM_STEPS and now() - self.start < SLOW_NS:
                return False
            self.begun, self.loader = now(), loader
            self.trace.begin()
        elif loader == self.loader:
            self.steps += 1
            if self.steps == 1:
                self.updates = state.optimizer_steps
        with self.trace.range("bdoc#step#%d" % loader):
            pass
        if (self._enough() or loader != self.loader) and self.accelerator.ready():
            self.last, self.ended = self.accelerator.mark(), now()
            self.trace.mute()
        return False

    def _enough(self) -> bool:
        if self.steps < STEPS_AT_LEAST or self.steps >= STEPS:
            return self.steps >= STEPS
        at_most = ENOUGH_NS if self.steps > STEPS_AT_LEAST else LONG_NS
        return now() - self.begun > at_most and state.optimizer_steps > self.updates

    def _drained(self) -> bool:
        """Whether the device has come past the last step; then the trace is saved."""
        if not self.accelerator.ready():
            return False
        passed = self.accelerator.passed(self.last)
        if not passed and now() - self.ended < DRAIN_NS:
            return False
        if passed:
            self.accelerator.release([self.last])
        self._save()
        return True

    def _save(self) -> None:
        trace, self.trace = self.trace, None
        self.short = self.steps < STEPS_AT_LEAST
        path = state.book.path + ".trace.json" if not self.short and _room() else ""
        trace.end(path)
        if path:
            state.book.fact(
                fact="trace", file=os.path.basename(path), steps=self.steps, loader=self.loader,
                begin_ns=self.begun, end_ns=self.ended,
            )  # fmt: skip
        else:
            why = "the loop was left after %d recorded steps, or there is no room" % self.steps
            state.book.fact(fact="trace_refused", why=why)
        self._note()

    def _give_up(self, refusal: Exception) -> None:
        """What cannot be recorded is left alone; and why is written down."""
        trace, self.trace = self.trace, None
        try:
            state.book.fact(fact="trace_refused", why=("%s: %s" % (type(refusal).__name__, refusal))[:200])
            if trace is not None:
                trace.end("")
        except Exception:  # ended by somebody else
            pass
        self._note()

    def _note(self) -> None:
        state.row(wire.WINDOWED, self.start, now() - self.start, 1)


def _room() -> bool:
    """Whether a trace may be written where the rows are."""
    found = os.statvfs(state.folder)
    return found.f_bavail * found.f_frsize >= ROOM_BYTES
