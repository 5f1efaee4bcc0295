"""A profiler's window on an accelerator: kineto records some steps; the host never waits for the device.

The first steps under the tracer are slow and not recorded. The window stays open after its last step until
the device has come past it, seen at later arrivals. The trace goes into the run folder; taking it apart is
the supervisor's work. Not yet proven on hardware.

CUPTI, which traces CUDA devices, would stay attached and slow the rest of the run by 10 to 20 % (pytorch
#144455), unless ``getenv("TEARDOWN_CUPTI")`` is "1" in ``_disable_profiler``, which then starts a thread
(kineto's CuptiActivityApi.cpp, ``teardownContext``), and in that thread when CUDA's runtime was next called:
there any other value attaches CUPTI again. So the window holds it for some steps. A recording that begins
before that is torn down (kineto #1169, #1554): the value is "0" while the window's recordings are prepared,
and when a profiler of the script's own may follow.
"""

from __future__ import annotations

import os
import sys

from . import wire
from .clocks import now
from .compiler import can_detach
from .guard import GuardedBlock, quiet
from .hints import Any, Callable, FrameType
from .state import OTHERS_AT_MOST, state

ACTIVITIES = {"cuda": "CUDA", "xpu": "XPU"}  # kind of accelerator -> kineto's name; ROCm says cuda
SEVERITY = "_ZN9libkineto6Logger14severityLevel_E"  # an atomic int, in torch 2.6 and in 2.13
INJECTED = ("CUDA_INJECTION64_PATH", "NV_COMPUTE_PROFILER_PERFWORKS_DIR")  # of nsys, ncu and their like
SILENT = 99  # above all of kineto's levels, which end with 5
TEARDOWN = "TEARDOWN_CUPTI"
DETACH_NS = 200_000_000  # until CUPTI has let go, by a call of CUDA's runtime and a thread's turn (chosen)


def refusal(torch: Any, kind: str) -> str:
    """Why such a device cannot be traced in this process now; "" if it can."""
    supported = {str(one).rpartition(".")[2] for one in torch._C._autograd._supported_activities()}
    if ACTIVITIES.get(kind) not in supported:
        return "this build of torch cannot trace a device of the kind " + kind
    if torch.autograd._profiler_enabled() or state.profiled:
        return "another profiler is on"
    other = next((one for one in os.environ if one in INJECTED or one.startswith("NSYS_")), "")
    if other:
        return "another tool traces the device already (%s is set), and only one can" % other
    if state.graphs and not can_detach(torch.version.cuda):
        return "the script captures CUDA graphs, which profiling can crash below CUDA 12.6"
    if not _detaches(torch) and not os.environ.get("BDOC_KEEP_TRACE"):
        return "CUPTI would stay attached and slow the run (CUDA below 12.6, or TEARDOWN_CUPTI is set)"
    if _severity(torch) is None:
        return "this build of torch hides kineto's log level: a recording would print to the user's stderr"
    return ""


def _detaches(torch: Any) -> bool:
    """Whether CUPTI, where that is used, may be let go of; torch sets "0" where that could crash."""
    return can_detach(torch.version.cuda) and os.environ.get(TEARDOWN, "1") == "1"


class Trace:
    """One recording: ``prepare`` starts the device's tracing, ``begin`` records, ``end`` stops and saves.
    All three in the same thread. They may raise: the caller drops the trace then. ``restore`` follows some
    steps after an ``end`` that is ``detaching``: CUPTI leaves the process."""

    def __init__(self, kind: str) -> None:
        torch: Any = sys.modules["torch"]
        autograd = self._autograd = torch.autograd
        self._host = {autograd.ProfilerActivity.CPU}
        device = getattr(autograd.ProfilerActivity, ACTIVITIES.get(kind, ""), None)
        self._all = self._host | ({device} if device is not None else set())
        self._range = torch._C._profiler._RecordFunctionFast
        self._hear = torch._C._autograd._enable_record_function
        self._settings = torch._C._profiler._ExperimentalConfig
        self._level = _severity(torch)
        self._before: int | None = None
        self._prepared = self._running = self.detaching = False
        self._detaches = torch.version.cuda is not None and _detaches(torch)

    def prepare(self) -> None:
        """Load and start what traces the device; the first time in a process takes seconds on some machines.

        Kineto sets its log level when it is first used: an empty recording of the host alone, where nothing
        fails, comes before.
        """
        self._let_kineto_find("0")
        try:
            self._autograd._prepare_profiler(self._config(), self._host)
            self._before, self._level.value = self._level.value, SILENT
            self._autograd._enable_profiler(self._config(), self._host)
            self._autograd._disable_profiler()
            self._autograd._prepare_profiler(self._config(), self._all)
            self._prepared = True
        finally:
            self.restore()

    def begin(self) -> None:
        """Record from now on, operators with the shapes of their arguments."""
        self._autograd._enable_profiler(self._config(), self._all)
        self._running = True

    def mute(self) -> None:
        """Record what the device does, and no more operators of this thread and its backward passes."""
        self._hear(False)

    def end(self, path: str, detach: bool) -> None:
        """Stop, and write the trace in Chrome's format; an empty path drops it."""
        self.detaching = detach and self._detaches and self._prepared
        try:
            self._hear(True)
            if self._prepared:
                if not self._running:  # only a recording that was on ends the device's tracing
                    self.begin()
                self._prepared = self._running = False
                self._let_kineto_find("1" if detach else "0")
                result = self._autograd._disable_profiler()
                if path:
                    result.save(path)
        finally:
            if self._before is not None:
                self._level.value = self._before
            if not self.detaching:
                self.restore()

    def restore(self) -> None:
        """Let kineto find again what the script has set."""
        self.detaching = False
        if self._detaches and TEARDOWN in os.environ:
            os.putenv(TEARDOWN, os.environ[TEARDOWN])
        elif self._detaches:
            os.unsetenv(TEARDOWN)

    def _let_kineto_find(self, value: str) -> None:
        """By ``getenv``; what the script sees in ``os.environ`` stays as it is."""
        if self._detaches and value != os.environ.get(TEARDOWN, "0"):
            os.putenv(TEARDOWN, value)

    def range(self, name: str) -> Any:
        """A context manager whose stretch of this thread bears that name in the trace."""
        return self._range(name)

    def _config(self) -> Any:
        kind = self._autograd.ProfilerState.KINETO
        return self._autograd.ProfilerConfig(kind, True, False, False, False, False, self._settings())


def _severity(torch: Any) -> Any:
    """Kineto's log level, in place; None in builds that do not export it."""
    import ctypes

    library = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
    try:
        return ctypes.c_int.in_dll(ctypes.CDLL(library), SEVERITY)
    except (OSError, ValueError):
        return None


WARM_STEPS = 2  # under the tracer, not recorded
STEPS = 6  # recorded: where the device begins with the second, only the first says
DRAIN_NS = 2_000_000_000  # until the device should have come past the last step: a full queue is a thousand
# launches long, 20 ms to a second of kernels, but of graphs it may be far more
STEPS_AT_LEAST = 2  # then one is left that is measured
ENOUGH_NS = 200_000_000  # recorded in fewer steps: an operator is issued in 10 us, takes 1 kB of the trace
LONG_NS = 500_000_000  # and 50 us of the loop's time when that ends, so that two such steps must do
SLOW_NS = 2_000_000_000  # one step of such a length is enough to warm up
ROOM_BYTES = 256 << 20  # free where the trace will be written, at least


class TraceWindow:
    """An open window; ``over`` is called at every arrival. It lets no exception out."""

    def __init__(self, accelerator: Any) -> None:
        self.accelerator = accelerator
        self.thread = state.thread()
        self.trace: Any = None
        self.closing: Any = None  # the same when it has ended, until CUPTI has let go
        self.start = self.begun = self.ended = self.closed = 0
        self.warmed = self.steps = self.updates = self.others = 0
        self.loader = 0
        self.short = False  # the loop was left before there was enough to be measured
        self.last: Any = None  # the mark behind the last step

    def open(self) -> None:
        """Begin to warm up, unless another profiler is on or there is no room."""
        self.start = now()
        with GuardedBlock(self._give_up):
            trace = self.accelerator.tracer() if _room() else "no room for a trace in the run folder"
            if isinstance(trace, str):
                raise RuntimeError(trace)
            self.trace = trace
            trace.prepare()

    def over(self, loader: int) -> bool:
        """The loop asks ``loader`` for its next batch, 0 = it has none: whether the window is over now."""
        if self.trace is not None:
            if state.thread() != self.thread:
                self.others += 1
                return self.others > OTHERS_AT_MOST
            with GuardedBlock(self._give_up):
                self._arrived(loader)
        elif self.closing is not None and now() - self.closed >= DETACH_NS:
            self._close()
        return self.trace is None and self.closing is None

    def leave(self, goes_on: bool = False) -> None:
        """The process ends, or another profiler begins: what is recorded may do, and CUPTI may stay. A loop
        that ``goes_on`` after a fork is rid of it, though no child may find what kineto is to find."""
        if self.trace is not None:
            with GuardedBlock(self._give_up):
                self._save(goes_on)
        if self.closing is not None:
            self._close()

    @quiet
    def name(self, kind: str, frame: FrameType | None) -> Callable[[], object] | None:
        """Name what begins now on this thread in the trace, ``bdoc#kind#site``, until the call that is given
        back; None while there is no trace."""
        if self.trace is None or not self.begun:
            return None
        stretch = self.trace.range("bdoc#%s#%d" % (kind, state.site(kind, frame)))
        stretch.__enter__()
        return lambda: stretch.__exit__(None, None, None)

    def _arrived(self, loader: int) -> None:
        if self.ended:
            self._drain()
            return
        if not self.begun:
            self.warmed += 1
            if self.warmed < WARM_STEPS and now() - self.start < SLOW_NS:
                return
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

    def _enough(self) -> bool:
        if self.steps < STEPS_AT_LEAST or self.steps >= STEPS:
            return self.steps >= STEPS
        at_most = ENOUGH_NS if self.steps > STEPS_AT_LEAST else LONG_NS
        return now() - self.begun > at_most and state.optimizer_steps > self.updates

    def _drain(self) -> None:
        """Once the device has come past the last step, the trace is saved."""
        if not self.accelerator.ready():
            return
        passed = self.accelerator.passed(self.last)
        if passed:
            self.accelerator.release([self.last])
        if passed or now() - self.ended >= DRAIN_NS:
            self._save(True)

    def _save(self, detach: bool) -> None:
        self.short, self.ended = self.steps < STEPS_AT_LEAST, self.ended or now()
        path = state.writer.path + ".trace.json" if not self.short and _room() else ""
        self._end(path, detach)
        if path:
            state.writer.fact(fact="trace", file=os.path.basename(path), steps=self.steps, loader=self.loader)
        else:
            why = "the loop was left after %d recorded steps, or there is no room" % self.steps
            state.writer.fact(fact="trace_refused", why=why)

    def _give_up(self, refusal: Exception) -> None:
        """What cannot be recorded is left alone; and why is written down."""
        with GuardedBlock(type):  # the script may have ended it
            state.writer.fact(fact="trace_refused", why=("%s: %s" % (type(refusal).__name__, refusal))[:200])
            if self.trace is not None:
                # CUDA's runtime is not asked to let CUPTI go after an error that the device keeps.
                self._end("", bool(quiet(self.accelerator.ready)()))
        if self.closing is None:
            self._note()

    def _end(self, path: str, detach: bool) -> None:
        trace, self.trace, self.closed = self.trace, None, now()
        self.closing = trace
        try:
            trace.end(path, detach)
        finally:
            if not trace.detaching:
                self._close()

    def _close(self) -> None:
        closing, self.closing = self.closing, None
        closing.restore()
        self._note()

    def _note(self) -> None:
        if self.start:
            state.row(wire.PROFILER_WINDOW, self.start, now() - self.start)
        self.start = 0


def _room() -> bool:
    """Whether a trace may be written where the rows are."""
    found = os.statvfs(state.folder)
    return wire.is_ours(state.folder) and found.f_bavail * found.f_frsize >= ROOM_BYTES
