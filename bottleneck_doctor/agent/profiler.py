"""A profiler window of one step on the CPU, data fetch left out: operators by self CPU time, as a table."""

from __future__ import annotations

import atexit
import sys
import weakref

from . import wire
from .clocks import now, thread_cpu
from .guard import GuardedBlock, at_fork, postpone, quiet, replace, undo
from .hints import TYPE_CHECKING, Any, Callable
from .state import OTHERS_AT_MOST, state

if TYPE_CHECKING:
    from .stop import Control

LONG_US = 100.0  # without any operator: no module and no dispatch takes that long to call the next one
CALL_US = 5.0  # of an operator's own time at most is the price of calling it
LARGE_US = 200.0  # of its own: an operator that several threads can share
LONGEST = 8  # operators and pauses are kept one by one: a thread that lost its core did so in one of these
RECORDS_AT_MOST = 100_000  # are read, at a microsecond each, while the user's thread waits


class OperatorTimes:
    """Microseconds of one thread, summed up; ``beyond`` is what operators took beyond the price of a call."""

    def __init__(self) -> None:
        self.operators = 0
        self.longest_operators: list[float] = []
        self.longest_pauses: list[float] = []
        self.longest_calls: list[float] = []  # pauses inside of an optimizer
        self.own = self.beyond = self.large = self.short = self.long = 0.0
        self.seen = 1.0  # share of the records' time that was read

    def operator(self, own: float) -> None:
        """One call, with the time that no operator inside of it took."""
        self.operators += 1
        self.own += own
        self.beyond += max(0.0, own - CALL_US)
        if own >= LARGE_US:
            self.large += own
            _keep(self.longest_operators, own)

    def pause(self, taken: float, in_optimizer: bool) -> None:
        """No operator ran for so long."""
        if taken >= LONG_US and not in_optimizer:
            self.long += taken
            _keep(self.longest_pauses, taken)
        else:
            self.short += taken
            if taken >= LONG_US:
                _keep(self.longest_calls, taken)


def _keep(longest: list[float], taken: float) -> None:
    longest.append(taken)
    longest.sort(reverse=True)
    del longest[LONGEST:]


def dissect(records: Any, table: dict[str, list[Any]]) -> OperatorTimes:
    """One thread's records, in order, from the mark that the profiler sets when it begins. ``table`` is added
    to: name -> [calls, microseconds of its own]."""
    anatomy, optimizing, operating = OperatorTimes(), 0, 0
    last: Any = records[0] if records else None
    kinds: dict[str, tuple[bool, bool]] = {}  # is it an operator, an optimizer
    spans: list[list[Any]] = []  # open ones: [record, name, microseconds inside, of these in operators]
    for record in records[:RECORDS_AT_MOST]:
        kind = record.kind()
        if kind == "push":
            name = record.name()
            if name not in kinds:  # ``aten::mm``, ``MulBackward0``; other spans only group these
                is_operator = "::" in name or name.rstrip("0123456789").endswith("Backward")
                kinds[name] = is_operator, name.startswith("Optimizer.")
            operator, optimizer = kinds[name]
            optimizing += optimizer
            if operator and not operating:
                anatomy.pause(last.cpu_elapsed_us(record), optimizing > 0)
            operating += operator
            spans.append([record, name, 0.0, 0.0])
        elif kind == "pop" and spans:
            begun, name, inside, in_operators = spans.pop()
            operator, optimizer = kinds[name]
            taken = begun.cpu_elapsed_us(record)
            row = table.setdefault(name, [0, 0.0])
            row[0] += 1
            row[1] += max(0.0, taken - inside)
            if operator:
                anatomy.operator(max(0.0, taken - in_operators))
            if spans:
                spans[-1][2] += taken
                spans[-1][3] += taken if operator else in_operators
            optimizing -= optimizer
            operating -= operator
            last = record if operator and not operating else last
        elif kind == "mark" and last is not record and not operating:
            anatomy.pause(last.cpu_elapsed_us(record), False)
            last = record
    if len(records) > RECORDS_AT_MOST:
        first, cut, end = records[0], records[RECORDS_AT_MOST - 1], records[-1]
        anatomy.seen = first.cpu_elapsed_us(cut) / max(first.cpu_elapsed_us(end), 1e-9)
    return anatomy


AGAIN_AT_MOST = 64  # steps of a loop that trains, in which it did not: an evaluation, batches fetched ahead
EMPTY = 0.1  # of the CPU of a step that trained: a batch was fetched, and nothing yet computed with it
AGAIN_NS = 5_000_000_000  # and as long at most, until the next sampled step that may find it training


class ProfilerWindow:
    """An open window.

    On CPU builds the profiler from before kineto is used: starting kineto takes 1.2 s the first time and
    prints to the user's stderr (torch 2.13). Its Python half takes 50 microseconds per record, seconds for a
    loader that indexes tensors; so the raw records are added up here.
    """

    def __init__(self) -> None:
        self.short = False  # it saw no training: another one is to be opened
        self.start = self.cpu = self.begun = self.backwards = self.others = 0
        self.before: list[int] = []  # nanoseconds of CPU of each step that was recorded and dropped
        self.thread = state.thread()
        self.running = False

    @quiet
    def open(self) -> None:
        """Begin, unless another profiler is on."""
        self.begun = now()
        if not sys.modules["torch"].autograd._profiler_enabled():
            self._record()

    def _record(self) -> None:
        torch: Any = sys.modules["torch"]
        kind = torch.autograd.ProfilerState.CPU
        plain = torch._C._profiler._ExperimentalConfig()
        torch.autograd._enable_profiler_legacy(
            torch.autograd.ProfilerConfig(kind, False, False, False, False, False, plain)
        )
        self.backwards = state.backwards
        self.start, self.cpu, self.running = now(), thread_cpu(), True

    def over(self, loader: int) -> bool:
        """Whether the window is over: it records one step, in a training one with a backward pass. If several
        passes ran, batches may have been fetched ahead: then it records the next such step instead."""
        if state.thread() != self.thread:  # it fetches ahead; torch ends a profiler in its own thread only
            self.others += 1
            return self.others > OTHERS_AT_MOST
        trained = state.backwards - self.backwards
        if self.running and state.backwards and (not trained or (trained > 1 and not self.before)):
            return not self._anew()
        self.close()
        return True

    def _anew(self) -> bool:
        """Drop the recording and record the next step; AGAIN_AT_MOST times, for AGAIN_NS."""
        self.before.append(thread_cpu() - self.cpu)
        self.running = False
        with GuardedBlock(type):  # the script may have ended it
            sys.modules["torch"].autograd._disable_profiler_legacy()
            if len(self.before) < AGAIN_AT_MOST and now() - self.begun < AGAIN_NS:
                self._record()
        self.short = not self.running
        if self.short:
            state.row(wire.PROFILER_WINDOW, self.begun, now() - self.begun)
        return self.running

    def _batches(self, cpu: int) -> int:
        """Batches computed in the step: its own, and those that the steps right before it only fetched."""
        fetched = 0
        for spent in reversed(self.before):
            if spent > EMPTY * cpu:
                break
            fetched += 1
        return max(1, min(state.backwards - self.backwards, 1 + fetched))

    def leave(self, goes_on: bool = False) -> None:
        """End the window in the middle of the step."""
        self.close()

    def name(self, kind: str, frame: Any) -> None:
        """Ignored: this window's table holds operators only."""

    @quiet
    def close(self) -> None:
        """End the recording and write the table."""
        if self.running:
            self.running = False
            taken, cpu = now() - self.start, thread_cpu() - self.cpu
            threads = sys.modules["torch"].autograd._disable_profiler_legacy()
            table = _note_anatomy(threads, taken, cpu, state.backwards - self.backwards, self._batches(cpu))
            rows = sorted(table.items(), key=lambda row: -row[1][1])
            for place, (name, (calls, microseconds)) in enumerate(rows):
                if place < wire.OPERATORS_AT_MOST or any(one in name for one in wire.TELLING):
                    state.writer.fact(fact="operator", name=name, calls=calls, self_cpu_s=microseconds / 1e6)
            state.row(wire.PROFILER_WINDOW, self.begun, now() - self.begun)


def _note_anatomy(threads: Any, taken: int, cpu: int, backwards: int, batches: int) -> dict[str, list[Any]]:
    """What the loop's thread did: its records are those that begin with the profiler's own mark. Returns the
    operators of all threads: [calls, microseconds of their own]."""
    table: dict[str, list[Any]] = {}
    noted = False
    for records in threads:
        found = dissect(records, table)
        if not noted and records and records[0].kind() == "mark":
            noted = True
            sums = {name: getattr(found, name) for name in ("own", "beyond", "large", "short", "long")}
            state.writer.fact(
                fact="anatomy", backwards=backwards, batches=batches, operators=found.operators,
                wall_s=found.seen * taken / 1e9, cpu_s=found.seen * cpu / 1e9,
                longest_operators_s=[one / 1e6 for one in found.longest_operators],
                longest_pauses_s=[one / 1e6 for one in found.longest_pauses],
                longest_calls_s=[one / 1e6 for one in found.longest_calls],
                **{name + "_s": value / 1e6 for name, value in sums.items()},
            )  # fmt: skip
    return table


def attach(control: Control) -> None:
    """Let the supervisor's request open a window at a sampled step; the step's end closes it."""

    def wish() -> None:
        if _is_elsewhere():
            control.profiled -= 1  # and so it is requested again at the next sampled step
            return
        begun = now()
        if state.accelerator is None:
            state.window = ProfilerWindow()
        else:
            from .trace_window import TraceWindow  # most runs and all workers do without

            state.window = TraceWindow(state.accelerator)
        state.writer.post(wire.WINDOW_OPEN, 1)
        atexit.register(leave)
        state.window.open()
        state.cost_before += now() - begun  # as at its end: no sampled step's cost

    control.on_profile = wish
    at_fork(lambda: leave(True), "before")
    undo.append(leave)


def _is_elsewhere() -> bool:
    """Whether this is the batch of another loop than the one that trains, such as an evaluation. Between two
    epochs no iterator is the pacer; a training loader that is built anew is known after its first step."""
    sampled = state.sampled
    if sampled is None:
        return False
    if state.pacer is None:
        return bool(state.trained_on) and sampled.loader != state.trained_on
    return sampled is not state.pacer


@quiet
def end_window(loader: int = 0) -> None:
    """A profiled step is over; called before anything else at its end, with the loader of the next one."""
    window, begun = state.window, now()
    if window is not None and window.over(loader):
        _closed()
        state.cost_before += now() - begun


_source: list[tuple[object, Any]] = []  # of the open window: an iterator's counts, and a reference to it


@quiet
def leave_with(iterator: Any) -> None:
    """Let the window end if this iterator, the first one asked within it, is freed before its last batch:
    after a ``break`` nothing else may end the window, and whatever the script does would be recorded."""
    if not _source:
        _source.append((iterator._bdoc, weakref.ref(iterator, _left)))


def _left(reference: Any) -> None:
    try:
        if _source and _source[0][1] is reference:
            leave(True)
    except BaseException as error:
        postpone(error)


def ends_regularly(account: object) -> None:
    """This iterator has given its last batch: the window goes on in the next epoch."""
    if _source and _source[0][0] is account:
        _source.clear()


@quiet
def leave(goes_on: bool = False) -> None:
    """The process ends or forks, or profiles itself. A profiler that is still on then crashes the end (torch
    2.6 to 2.13), goes on recording in the child for ever, or lets no other begin."""
    window = state.window
    if window is not None and window.thread == state.thread():
        window.leave(goes_on)
        _closed()


def _closed() -> None:
    window, state.window = state.window, None
    _source.clear()
    atexit.unregister(leave)
    state.writer.post(wire.WINDOW_OPEN, 0)
    if state.control is not None:
        state.control.windows_done += 1
        state.writer.post(wire.WINDOW, state.control.windows_done)
        if window is not None and window.short:
            state.control.ask_again()


# What torch's profilers call, and whether one is on from then on. Our windows call torch by other names.
NAMES = {
    "_prepare_profiler": True, "_enable_profiler": True, "_disable_profiler": False,
    "_enable_profiler_legacy": True, "_disable_profiler_legacy": False,
}  # fmt: skip


def patch(module: Any) -> None:
    """``module`` is torch.autograd.profiler, or profiler_legacy. The agent's window ends before a profiler of
    the script's begins: torch refuses a second one, and ends the process if one was only prepared."""
    for name, begins in NAMES.items():
        replace(module, name, _noting(begins))


def _noting(begins: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*args: Any, **kwargs: Any) -> Any:
            if begins:
                leave()
            result = original(*args, **kwargs)
            state.profiled = begins
            return result

        return noting

    return build
