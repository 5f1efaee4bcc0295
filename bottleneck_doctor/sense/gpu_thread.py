"""Reads the GPUs beside the supervisor's loop, so that a driver that is slow or hangs delays nobody.

NVML asks the kernel, which may wait for a device: seconds to wake one, for ever when it has fallen off the
bus. Each reading is a short thread of its own; the loop never waits for it, and takes up what it found later.
A thread that the kernel never lets go is left behind.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..model.instruments import Sample
from ..model.run import Gap
from .gpus import Gpus
from .nvml import NO_ANSWER, load_nvml, missed
from .periods import Track

MOST_FAILURES = 5  # readings in a row
HANGS_NS = 10_000_000_000  # of one reading, after which it is said that the driver hangs (ours)
LOOK_AGAIN_NS = 50_000_000
PATIENCE_S = 1.0  # for a reading under way when the run ends


class GpuReader:
    """The GPUs of one job. ``look`` never blocks, and nothing here raises."""

    def __init__(self, now_ns: int, nvml: Any = None, environment: Mapping[str, str] | None = None) -> None:
        self._nvml, self._environment = nvml, environment
        self._began_ns = self._asked_ns = now_ns
        self._track = Track(now_ns, roaming=True)  # steps may last as long as its period
        self._gpus: Gpus | None = None
        self._static: list[Sample] = []
        self._gaps: list[Gap] = []
        self._thread: threading.Thread | None = None
        self._found: list[Sample] = []
        self._cost_ns = 0
        self._failures = 0
        self.cpu_ns = 0

    @property
    def next_ns(self) -> int | None:
        """When to look again; None when there is nothing to read."""
        if self._thread is not None:
            return self._asked_ns + LOOK_AGAIN_NS
        return None if self._is_over() else self._track.next_ns

    def look(self, now_ns: int, job: frozenset[int]) -> None:
        """Takes up what a reading found, and begins the next one when it is due."""
        self._take()
        self._asked_ns = now_ns
        if self._thread is None and not self._is_over() and self._track.is_due(now_ns):
            self._due_ns = now_ns
            self._thread = _start(lambda: self._read(now_ns, job))

    def samples(self) -> list[Sample]:
        """What was read so far."""
        return self._static + self._track.samples()

    def gaps(self) -> list[Gap]:
        """What did not answer."""
        waited_ns = 0 if self._thread is None else self._asked_ns - self._due_ns
        hangs = [NO_ANSWER] if waited_ns > HANGS_NS else []
        return [*self._gaps, *(self._gpus.gaps() if self._gpus is not None else []), *hangs]

    def close(self) -> None:
        """Takes the last reading and lets NVML go, unless it hangs."""
        hangs = NO_ANSWER in self.gaps()
        if self._thread is not None and not hangs:
            self._thread.join(PATIENCE_S)
        self._take()
        if self._gpus is not None and self._thread is None:
            _start(self._gpus.close).join(PATIENCE_S)

    def _is_over(self) -> bool:
        return self._failures >= MOST_FAILURES

    def _take(self) -> None:
        if self._thread is None or self._thread.is_alive():
            return
        self._thread = None
        self.cpu_ns += self._cost_ns
        self._track.keep(self._due_ns, self._found, self._cost_ns)

    def _read(self, now_ns: int, job: frozenset[int]) -> None:
        """In a thread of its own; nobody touches what it writes until it has ended."""
        began_ns = time.thread_time_ns()
        self._found = []
        try:
            if self._gpus is None:
                self._open()
            if self._gpus is not None and (values := self._gpus.read(job)):
                self._found = [Sample(now_ns, "gpu", values)]
            self._failures = MOST_FAILURES if self._gpus is None else 0
        except Exception as error:  # our bug or a binding's oddity: the job must not notice either
            self._failures += 1
            gap = Gap("gpu sensor", f"{type(error).__name__}: {error}")
            self._gaps += [gap] if gap not in self._gaps else []
        self._cost_ns = time.thread_time_ns() - began_ns

    def _open(self) -> None:
        loaded = load_nvml() if self._nvml is None else self._nvml
        if isinstance(loaded, Gap):
            self._gaps += missed(loaded)
            return
        gpus = Gpus(loaded, self._environment)
        static = gpus.static()
        self._static = [Sample(self._began_ns, "gpu_static", static)] if static else []
        self._gpus = gpus


def _start(work: Callable[[], None]) -> threading.Thread:
    """It is born with every signal blocked: those of the run are for the thread that passes them on."""
    thread = threading.Thread(target=work, name="bdoc gpus", daemon=True)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return thread
