"""A device as torch's API shows one, for agent/device_clock.py itself to run on. Simulated: no hardware.

Its events fail as those of CUDA do. Freed in a forked child, or after an error that the device keeps, they
end the process; queried while a graph is captured, by whatever thread, they end the capture; they belong to
the device that they were recorded on first, and tell no time until the device has come past them.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from threading import get_ident
from time import monotonic_ns
from types import SimpleNamespace
from typing import Any, ClassVar

import torch

AGENT = "_bdoc_agent."  # under which name the agent runs in a user's process


class Driver:
    """What the events of a process share, and what tests turn: a timeline on which all is done at once."""

    kind = "meta"  # of torch's devices: its tensors are torch's meta tensors
    described: ClassVar[dict[str, Any]] = {}  # replaces properties in describe()
    stream = 0
    books: tuple[int, int, int, int] | None = (0, 0, 0, 0)

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.error = ""  # that the device keeps: each call raises it from now on
        self.capture = 0  # the thread that captures a graph, in mode "global"
        self.spoilt = 0  # captures that a query has ended, or that hold a mark
        self.created = self.freed = 0
        self.end_process: Any = os.abort

    def mark(self) -> int:
        """When the current stream will have done all that it was given."""
        return monotonic_ns()

    def passed(self, mark: int) -> bool:
        """Whether it has."""
        return True

    def between_ns(self, first: int, last: int) -> int:
        """The device's time between two marks."""
        return last - first

    def check(self) -> None:
        """Any call of the runtime."""
        if os.getpid() != self.pid:
            raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")
        if self.error:
            raise RuntimeError("CUDA error: " + self.error)

    def captures_here(self) -> bool:
        """Whether the calling thread's stream is captured."""
        self.check()
        return self.capture == get_ident()

    def statistics(self, index: int) -> dict[str, Any]:
        """The allocator's."""
        retries, requests, peak, reserved = self.books  # type: ignore[misc]
        nested = {"allocated_bytes": peak, "reserved_bytes": reserved}
        return {
            "num_alloc_retries": retries,
            "num_device_alloc": requests,
            **{name: {"all": {"peak": value}} for name, value in nested.items()},
        }


class Event:
    """As torch.cuda.Event; what would wait for the device is missing, so that using it fails."""

    def __init__(self, driver: Driver, enable_timing: bool) -> None:
        assert enable_timing
        driver.check()
        driver.created += 1
        self.driver, self.index, self.at = driver, None, -1

    def record(self, stream: Any) -> None:
        """A mark on that stream."""
        self.driver.check()
        assert self.index in (None, stream.device_index), "an event belongs to the device of its first record"
        self.index = stream.device_index
        self.driver.spoilt += self.driver.capture == get_ident()
        self.at = self.driver.mark()

    def query(self) -> bool:
        """Whether the device has come past it."""
        self.driver.check()
        if self.driver.capture:
            self.driver.spoilt += 1
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
        return self.driver.passed(self.at)

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds; refused where the device has not come past both."""
        if not (self.query() and other.query()):
            raise RuntimeError("CUDA error: device not ready")
        return self.driver.between_ns(self.at, other.at) / 1e6

    def __del__(self, getpid: Any = os.getpid) -> None:
        driver = self.driver
        driver.freed += 1
        if driver.error or getpid() != driver.pid:
            driver.end_process()


class Torch:
    """torch, built for that device and using it; ``own`` stands in the place of what torch has."""

    def __init__(self, driver: Driver, **own: Any) -> None:
        self.module = SimpleNamespace(
            Event=partial(Event, driver),
            is_initialized=lambda: True,
            current_device=lambda: 0,
            device_count=lambda: 1,
            current_stream=lambda index: SimpleNamespace(stream_id=driver.stream, device_index=index),
            is_current_stream_capturing=driver.captures_here,
            get_device_properties=lambda index: SimpleNamespace(name="simulated device"),
            memory_stats_as_nested_dict=driver.statistics,
        )
        current = SimpleNamespace(type=driver.kind)
        self.accelerator = SimpleNamespace(current_accelerator=lambda: current)
        vars(self).update(own)

    def get_device_module(self, kind: str) -> Any:
        """As torch's."""
        return self.module

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def in_use(driver: Driver, clock: Any) -> Any:
    """The agent's view of it; ``clock`` is agent/device_clock.py, a ``tracer`` replaces kineto's."""
    found = clock.Accelerator(Torch(driver), driver.kind, 0)
    properties = {**found.describe(), **driver.described}
    found.describe = lambda: properties
    found.tracer = getattr(driver, "tracer", found.tracer)
    return found


def adopt(driver: Driver) -> Any:
    """In a script under bdoc, have the agent use it; its device_clock, or None where there is no agent."""
    clock = sys.modules.get(AGENT + "device_clock")
    if clock is not None:
        from _bdoc_agent import trace_window  # type: ignore[import-not-found]

        trace_window.ACTIVITIES[driver.kind] = "CPU"
        clock.adopt(in_use(driver, clock))
    return clock
