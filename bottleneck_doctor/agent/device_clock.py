"""The device's own clock: events around the parts of a sampled step, read some steps later; never waits.

What lies between two marks with nothing issued in between is time in which the stream had nothing to do: that
is the exposed part of a wait for data. A host's clock cannot tell, since the loop runs ahead of the device.
Not yet proven on hardware.
"""

from __future__ import annotations

import sys
from time import monotonic_ns as now

from . import guard, tensor_hooks, wire
from .guard import GuardedBlock, from_signal, never_free
from .hints import TYPE_CHECKING, Any, Callable
from .state import FIRST_LOOKS, state

if TYPE_CHECKING:
    Columns = tuple[int, int, int]  # of a row, those after device_ns
    Part = tuple[int, int, int, Columns, int]  # kind, start, duration, columns, thing
    Token = tuple["SampledDeviceStep", Any, int]  # the mark and the instant at which a part of it began


class Accelerator:
    """By torch's events: CUDA, ROCm (which torch calls cuda), XPU. The tests have a simulated one.

    Recording an event blocks nothing: it is one more entry in the queue of the current stream.
    """

    def __init__(self, torch: Any, kind: str, index: int | None) -> None:
        self.torch = torch
        self.kind = kind
        self.module = torch.get_device_module(kind)
        self.index = int(self.module.current_device()) if index is None else index
        self._capturing = getattr(self.module, "is_current_stream_capturing", bool)
        self._spare: list[Any] = []

    def ready(self) -> bool:
        """Whether events may be recorded and queried: not while a graph is captured, which would replay the
        mark. A query by any thread ends a capture in torch's default mode, "global"."""
        return not state.captures and not self._capturing()

    def mark(self) -> Any:
        """A mark behind everything that was issued to the device's current stream so far. Which device is
        current does not matter: many scripts never set it."""
        event = self._spare.pop() if self._spare else never_free(self.module.Event(enable_timing=True))
        event.record(self.module.current_stream(self.index))
        return event

    def passed(self, mark: Any) -> bool:
        """Whether the device has reached it."""
        return bool(mark.query())

    def between_ns(self, first: Any, last: Any) -> int:
        """The device's time between two marks that it has passed; torch gives milliseconds."""
        return int(first.elapsed_time(last) * 1e6)

    def release(self, marks: list[Any]) -> None:
        """Take these marks back for reuse; as many exist as were ever in use at once."""
        self._spare += marks

    def stream(self) -> int:
        """Which stream is the current one."""
        return int(self.module.current_stream(self.index).stream_id)

    def describe(self) -> dict[str, Any]:
        """What does not change, as JSON values."""
        found = self.module.get_device_properties(self.index)
        capability = [getattr(found, name, None) for name in ("major", "minor")]
        return {
            "kind": self.kind,
            "index": self.index,
            "name": str(found.name),
            "uuid": str(getattr(found, "uuid", "")),
            "capability": None if None in capability else capability,
            "memory_bytes": getattr(found, "total_memory", None),
            "hip": getattr(self.torch.version, "hip", None),
        }

    def memory(self) -> tuple[int, int, int, int]:
        """The caching allocator so far: retries, requests to the driver, bytes at the peak, and reserved."""
        books = self.module.memory_stats_as_nested_dict(self.index)
        peak = books.get("allocated_bytes", {}).get("all", {}).get("peak", 0)
        reserved = books.get("reserved_bytes", {}).get("all", {}).get("peak", 0)
        return books.get("num_alloc_retries", 0), books.get("num_device_alloc", 0), peak, reserved

    def tracer(self) -> Any:
        """The tracer that records this device in a profiler window, or the reason why none can now."""
        from . import trace_window  # most processes never need it

        return trace_window.refusal(self.torch, self.kind) or trace_window.Trace(self.kind)


def find_accelerator(torch: Any, device: Any = None) -> Accelerator | None:
    """The accelerator that the script uses by now, or None; never initialises one. ``device`` is where the
    parameters are; without it, or when they are kept on the host, it is the current one, or the only one
    in use: a mark on another one would create a context there."""
    current = guard.quiet(torch.accelerator.current_accelerator)()  # torch 2.6 raises where there is none
    if current is None:
        return None
    module = torch.get_device_module(current.type)
    if not getattr(module, "is_initialized", bool)():
        return None
    known = device is not None and device.type == current.type
    index = device.index if known and device.index is not None else int(module.current_device())
    if not _in_use(torch, current.type, index):
        others = [] if known else range(module.device_count())
        used = [one for one in others if _in_use(torch, current.type, one)]
        if len(used) != 1:
            return None
        index = used[0]
    return Accelerator(torch, current.type, index)


def _in_use(torch: Any, kind: str, index: int) -> bool:
    """Whether this process has a context on the device already, where torch can tell."""
    asked = getattr(getattr(torch, "_C", None), "_%s_hasPrimaryContext" % kind, None)
    return bool(asked(index)) if asked is not None else True


EVERY_NS = 1_000_000_000


class _LastReading:
    """When the allocator's counters were read last, and whether they can be read."""

    last_ns = 0
    refused = False


def note_allocator(every_ns: int = EVERY_NS) -> None:
    """Once a second at most, at a sampled step: write a row. Torch builds a table of all counters for it."""
    here = now()
    if _LastReading.refused or here - _LastReading.last_ns < every_ns:
        return
    _LastReading.last_ns = here
    try:
        retries, requests, peak, reserved = state.accelerator.memory()
    except Exception as problem:  # this device, or this version of torch, has no such counters
        if from_signal(problem):
            raise
        _LastReading.refused = True
        return
    emptied = wire.NOTHING if tensor_hooks.patches.compiled else state.emptied
    state.row(
        wire.ALLOCATOR, here, now() - here, retries, requests, emptied, peak, reserved, thread=state.thread()
    )
    state.hooks_ns += now() - here


ELSEWHERE_AT_MOST = 16  # in a row; before it captures a graph, a script warms up so for 3 steps, with DDP 11
PENDING_AT_MOST = 8  # looks that the device has not come to yet; none is begun before it is past the oldest
PARTS_AT_MOST = 64  # of one step
BUDGET_NS = 15_000  # of the loop's time a step, on average (chosen)
BUDGET_SHARE = 1000  # or one in so many of the loop's time, where steps are long (chosen)
OTHERS_AT_MOST = 2  # looks of other loaders that begin inside of one: its loop may have been left by `break`
UNTRAINED_FROM = 16  # batches without a step of an optimizer: a loop that does not train


class SampledDeviceStep:
    """One sampled step: its events on the device, and the parts, each between two of them."""

    __slots__ = ("alone", "asked", "caught_up", "copies", "done", "end", "got", "last", "marks", "others",
                 "owner", "parts", "start", "stream", "thing", "thread")  # fmt: skip

    def __init__(self, owner: object, thing: int, alone: bool) -> None:
        self.owner, self.thing, self.alone = owner, thing, int(alone)
        self.thread = state.thread()
        self.start, self.end = now(), 0
        self.stream = state.accelerator.stream()
        self.marks: list[Any] = []
        self.parts: list[tuple[Any, Any, Part]] = []
        self.asked = self.mark()
        self.got: Any = None
        self.done: Any = None
        self.last: Any = None  # the newest mark behind work of the step's own
        self.copies = 0  # to the device, while the loop was being given its batch
        self.others = 0  # batches that other loaders asked for during this step
        self.caught_up = wire.NOTHING

    def mark(self) -> Any:
        """One more mark on the current stream."""
        mark = state.accelerator.mark()
        self.marks.append(mark)
        return mark


def quiet(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a hook: after its first exception the device is timed no more, and the reason is written down."""

    def guarded(*args: Any) -> Any:
        if state.accelerator is None:
            return None
        start = now()
        try:
            return hook(*args)
        except Exception as refusal:
            if from_signal(refusal):
                raise
            _refused(refusal)
            return None
        finally:
            if state.window is None:  # the cost of traced steps is not taken off the budget of later ones
                state.clock_ns += now() - start

    return guarded


def _refused(why: Exception) -> None:
    give_up("%s: %s" % (type(why).__name__, why))


def give_up(why: str) -> None:
    """Stop timing the device in this process."""
    state.accelerator, state.seeking, state.look = None, False, None
    state.pending.clear()
    tensor_hooks.rest()
    state.writer.fact(fact="device_silent", why=why[:200])


def seek(optimizer: Any = None) -> None:
    """Find the accelerator that the script uses; called at sampled steps until one is found. It is the device
    of the optimizer's parameters; for a loop without an optimizer, the current device."""
    if not state.seeking or (optimizer is None and state.arrivals < UNTRAINED_FROM):
        return
    with GuardedBlock(_refused), sys.modules["torch"]._C.DisableTorchFunction():
        device = None
        if optimizer is not None:  # groups may be empty
            held = (one.device for group in optimizer.param_groups for one in group["params"])
            device = next(held, None)
            if device is None:
                return
        found = find_accelerator(sys.modules["torch"], device)
        if found is not None:
            adopt(found)


def adopt(found: Any) -> None:
    """From now on this device's clock is read."""
    state.writer.fact(fact="device", **found.describe())
    state.accelerator, state.seeking = found, False
    for callback in on_found:
        callback()


on_found: list[Callable[[], object]] = []  # called when a device is there: what only then is worth hooking


@quiet
def ask(owner: object, thing: int, alone: bool = False) -> None:
    """A sampled step begins: the loop asks for its batch. ``owner`` is the iterator or loop that ends it. A
    second loader of the loop starts none until then, unless the first seems to have been abandoned."""
    look = state.look
    if look is not None and look.owner is not owner and look.others < OTHERS_AT_MOST:
        look.others += 1
        return
    drop()
    if len(state.pending) < PENDING_AT_MOST and _may_look() and state.accelerator.ready():
        look = SampledDeviceStep(owner, thing, alone)  # marked before anything else is done
        note_allocator()
        look.copies = 0 if tensor_hooks.listen() else wire.NOTHING
        state.look = look
    _read_back()


def _may_look() -> bool:
    """Whether the budget lets the device's clock be read in this step. In a profiler window every step is
    read: the window needs its source lines."""
    here = now()
    state.clock_since = state.clock_since or here
    share = (here - state.clock_since) // BUDGET_SHARE
    ahead = BUDGET_NS * FIRST_LOOKS  # short runs are to be seen, too
    allowed = max(BUDGET_NS * max(state.arrivals, state.trained), share) + ahead
    return state.window is not None or state.clock_ns <= allowed


@quiet
def got(owner: object) -> None:
    """The batch is there."""
    if state.look is not None and state.look.owner is owner and state.accelerator.ready():
        state.look.got = state.look.mark()


@quiet
def end(owner: object) -> None:
    """The step is over: the loop is about to ask again."""
    look = state.look
    if look is None or look.owner is not owner:
        return
    if look.got is None or not state.accelerator.ready():
        drop()
        return
    state.look = None
    tensor_hooks.rest()
    if look.last is not None:
        look.caught_up = int(state.accelerator.passed(look.last))
    look.done, look.end = look.mark(), now()
    state.pending.append(look)


def drop() -> None:
    """Discard the sampled step: something else begins inside of it, such as an evaluation."""
    look, state.look = state.look, None
    if look is not None and state.accelerator is not None:
        state.accelerator.release(look.marks)
    tensor_hooks.rest()


@quiet
def begin(computes: bool = False) -> Token | None:
    """Mark the begin of a part of a sampled step; None in other steps. If the step ``computes`` on another
    stream than the one on which it waits for data, it is discarded: its marks would not show the wait."""
    look = state.look
    if look is None or look.thread != state.thread() or len(look.parts) >= PARTS_AT_MOST:
        return None
    if computes and state.accelerator.stream() != look.stream:
        drop()
        state.elsewhere += 1
        if state.elsewhere >= ELSEWHERE_AT_MOST:
            give_up("the step computes on a stream of its own, where no mark sees the waits for data")
        return None
    state.elsewhere = 0 if computes else state.elsewhere
    return (look, look.mark(), now()) if state.accelerator.ready() else None


@quiet
def note(token: Token | None, kind: int, columns: Columns, thing: int = 0) -> None:
    """Mark the end of the part: a row of this kind, the device's time in its first column, then these."""
    look = state.look
    if token is None or token[0] is not look or not state.accelerator.ready():
        return
    look, first, start = token
    last = look.mark()
    if kind == wire.DEVICE_PART:
        look.last = last
    look.parts.append((first, last, (kind, start, now() - start, columns, thing)))


def part(token: Token | None, which: int) -> None:
    """Mark the end of the part; ``which`` is its place in ``wire.DEVICE_PARTS``."""
    if token is not None:
        note(token, wire.DEVICE_PART, (which, 0, 0))


def _read_back() -> None:
    """Write the rows of the sampled steps that the device has finished; the others stay pending."""
    device = state.accelerator
    if not state.pending or not device.ready():
        return
    while state.pending and device.passed(state.pending[0].done):
        look = state.pending.pop(0)
        idle, whole = device.between_ns(look.asked, look.got), device.between_ns(look.asked, look.done)
        state.row(
            wire.DEVICE_STEP, look.start, look.end - look.start, idle, whole, look.copies, look.caught_up,
            look.alone, look.thing, look.thread,
        )  # fmt: skip
        for first, last, (kind, start, duration, (b, c, d), thing) in look.parts:
            taken = device.between_ns(first, last)
            state.row(kind, start, duration, taken, b, c, d, 0, thing, look.thread)
        device.release(look.marks)
