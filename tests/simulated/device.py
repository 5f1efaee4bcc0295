"""A simulated accelerator: its streams are timelines on the host's clock, and it computes nothing.

As with CUDA, work begins when it has been issued and its stream is free; issuing returns at once unless 1024
launches are queued already; a copy from pageable memory makes the host wait, one from pinned memory does not.
Streams do not slow each other down, which those of a real device do. All instants are CLOCK_MONOTONIC in
nanoseconds, and everything that happened is kept: that is the truth that bdoc is held to.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterator
from time import monotonic_ns as now
from typing import NamedTuple

LAUNCHES_AT_MOST = 1024  # queued on a stream, as with CUDA
SPIN_NS = 200_000  # before the end of a wait: a sleep would come late
READ_S = 1e-5  # a few bytes on their way back
DRIVER_S = 4e-4  # a request to the driver for memory, or giving it back


class Work(NamedTuple):
    """Something that the device did; ``called`` and ``returned`` are the host's call that issued it."""

    kind: str  # kernel, copy, read
    name: str
    begin: int
    end: int
    called: int
    returned: int
    stream: int
    nbytes: int = 0


class Call(NamedTuple):
    """A call that issues nothing: it waits for the device, or goes to the driver for memory."""

    name: str
    begin: int
    end: int


class Stream:
    """One queue of the device."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.free = 0
        self.queue: deque[int] = deque()  # ends of what is queued

    def append(self, seconds: float) -> tuple[int, int]:
        """When work begins and ends that is issued now."""
        begin = max(now(), self.free)
        self.free = begin + int(seconds * 1e9)
        self.queue.append(self.free)
        return begin, self.free


class Device:
    """``issue_s`` is what a launch costs the host, as an eager framework's operators do."""

    def __init__(self, issue_s: float = 0.0, bytes_per_s: float = 12e9) -> None:
        self.issue_s, self.bytes_per_s = issue_s, bytes_per_s
        self.stream = self.compute = Stream(7)
        self.work: list[Work] = []
        self.calls: list[Call] = []
        self.disturbed: list[tuple[int, int]] = []  # stretches in which a profiler recorded it
        self.retries = self.requests = 0
        self.held = False

    def launch(self, name: str, seconds: float) -> None:
        """Queue one kernel."""
        _burn(self.issue_s)
        called = now()
        self._queue("kernel", name, seconds, called)

    def launch_graph(self, name: str, kernels: int, seconds: float) -> None:
        """Queue so many kernels by one call, as a captured graph does."""
        _burn(self.issue_s)
        called = now()
        for _ in range(kernels):
            self._queue("kernel", name, seconds, called)

    def copy(self, nbytes: int, blocks: bool) -> None:
        """Copy from the host on the current stream; from pageable memory the host waits for its end."""
        called = now()
        self._queue("copy", "Memcpy HtoD", nbytes / self.bytes_per_s, called)
        if blocks:
            self._wait(self.stream.free)
            self.work[-1] = self.work[-1]._replace(returned=now())

    def read(self) -> None:
        """Bring a value back: the host waits for all that was queued before."""
        called = now()
        self._queue("read", "Memcpy DtoH", READ_S, called)
        self.synchronise()

    def synchronise(self) -> None:
        """Wait until the current stream is done."""
        begin = now()
        self._wait(self.stream.free)
        self.calls.append(Call("cudaStreamSynchronize", begin, now()))

    def allocate(self) -> None:
        """Ask the driver for memory: nothing can be issued meanwhile."""
        self.requests += 1
        begin = now()
        _burn(DRIVER_S)
        self.calls.append(Call("cudaMalloc", begin, now()))

    def empty_cache(self) -> None:
        """Give memory back to the driver, which waits for the device first."""
        begin = now()
        self._wait(self.stream.free)
        _burn(DRIVER_S)
        self.calls.append(Call("cudaFree", begin, now()))
        self.held = False

    def need_memory(self, blocks: int) -> None:
        """What a step needs, from the caching allocator: the driver is asked where the cache was emptied."""
        for _ in range(0 if self.held else blocks):
            self.allocate()
        self.held = True

    @contextlib.contextmanager
    def on(self, stream: Stream) -> Iterator[None]:
        """Issue to another stream meanwhile."""
        before, self.stream = self.stream, stream
        yield
        self.stream = before

    def wait_for(self, stream: Stream) -> None:
        """What is issued to the current stream from now on begins after all that the other has so far."""
        self.stream.free = max(self.stream.free, stream.free)

    def mark(self) -> int:
        """When the current stream will have done all that it was given so far."""
        return max(now(), self.stream.free)

    def passed(self, mark: int) -> bool:
        """Whether the device has come to it."""
        return now() >= mark

    def _queue(self, kind: str, name: str, seconds: float, called: int) -> None:
        queue = self.stream.queue
        while queue and queue[0] <= now():
            queue.popleft()
        if len(queue) >= LAUNCHES_AT_MOST:
            self._wait(queue.popleft())
        begin, end = self.stream.append(seconds)
        size = 0 if kind == "kernel" else int(seconds * self.bytes_per_s)
        self.work.append(Work(kind, name, begin, end, called, now(), self.stream.number, size))

    def _wait(self, until: int) -> None:
        while (left := until - now()) > 0:
            if left > SPIN_NS:
                time.sleep((left - SPIN_NS) * 1e-9)


def _burn(seconds: float) -> None:
    """Use this much CPU time of the calling thread."""
    until = time.thread_time() + seconds
    while seconds and time.thread_time() < until:
        pass
