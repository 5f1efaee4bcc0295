"""Times work on an accelerator by events in its streams, and reads what torch reports of it. Never waits.

Not yet proven on hardware.
"""

from __future__ import annotations

from .guard import never_free
from .hints import Any
from .state import state


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


def find(torch: Any, device: Any = None) -> Accelerator | None:
    """The accelerator that the script uses by now, or None; never initialises one. ``device`` is where the
    parameters are; without it, or when they are kept on the host, it is the current one, or the only one
    in use: a mark on another one would create a context there."""
    current = torch.accelerator.current_accelerator()
    if current is None:
        return None
    module = torch.get_device_module(current.type)
    initialised = getattr(module, "is_initialized", None)
    if initialised is None or not initialised():
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
