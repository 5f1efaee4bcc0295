"""Writes the rows of trainings on a simulated device: two timelines, and marks on one of them. All simulated.

The truth of each run is what the simulation itself counted: when the device had nothing to do, and why.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from bottleneck_doctor.agent import wire
from bottleneck_doctor.agent.rows import EventWriter
from bottleneck_doctor.assemble.device import Traced, read_devices, read_drivers
from bottleneck_doctor.assemble.loaders import read_iterations, read_loaders
from bottleneck_doctor.assemble.profile import Remains, assemble
from bottleneck_doctor.assemble.rows import read_logs
from bottleneck_doctor.assemble.trace import TraceTable
from bottleneck_doctor.model.device import DeviceWindow
from bottleneck_doctor.model.instruments import Sample
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Run
from tests.assemble.test_profile import writer

US, MS, SECOND = 1_000, 1_000_000, 1_000_000_000
ROOM = 30 * MS
BLOCKING = 2  # the bit of a copy
DEVICE = {"kind": "cuda", "index": 0, "name": "Simulated", "uuid": "5ca1ab1e-0000", "capability": [9, 0],
          "memory_bytes": 80 << 30, "hip": None}  # fmt: skip


@dataclass(frozen=True)
class Habits:
    """What a step is like, in milliseconds.

    ``fetch`` is the loader's work in the loop's process, ``issue`` what the loop needs to issue ``launches``
    kernels, ``device`` what the device needs for them, ``copy`` a copy before them, ``after`` Python after a
    readback (None: nothing is read back), ``outro`` more Python at the end, ``in_next`` work that the loader
    gives the device. Every ``saving_every``-th step saves for ``saving``; every ``stall_every``-th batch
    takes ``stall`` more.
    """

    fetch: float = 0.2
    issue: float = 2.0
    device: float = 5.0
    launches: int = 20
    copy: float = 0.0
    after: float | None = None
    saving: float = 0.0
    saving_every: int = 10
    in_next: float = 0.0
    outro: float = 0.0
    stall: float = 0.0
    stall_every: int = 40


@dataclass
class Training:
    """A process that trains, step by step."""

    file: EventWriter
    habits: Habits
    now: int = SECOND
    busy_until: int = SECOND
    passes: int = 0
    waited: int = 0
    idle: Counter[str] = field(default_factory=Counter)
    busy: int = 0

    def step(self, looked: bool = True) -> None:
        """One batch and what follows on it."""
        habits, begin, device_begin = self.habits, self.now, max(self.now, self.busy_until)
        self._work(habits.in_next)
        rare = habits.stall if self.passes % habits.stall_every == habits.stall_every - 1 else 0.0
        self._pass(habits.fetch + rare, "input")
        self._fetched(begin)
        got, device_got = self.now, max(self.now, self.busy_until)
        parts = self._copy() + self._compute() + self._read_back() + self._save()
        self._pass(habits.outro, "launch")
        self.passes += 1
        taken = got - begin
        self.waited += taken
        if looked:
            behind = int(self.busy_until <= self.now)
            values = (device_got - device_begin, max(self.now, self.busy_until) - device_begin, 0, behind, 0)
            self.file.row(
                wire.NEXT, begin, taken, self.passes, taken, self.waited, self.passes, self.passes, 1
            )
            self.file.row(wire.CLOCKS, begin, 1, begin, begin, 0, wire.NOTHING, 0, 1)
            self.file.row(wire.DEVICE_STEP, begin, self.now - begin, *values, 1)
            for row in parts:
                self.file.row(*row)
            self.file.row(wire.BACKWARD, self.now - 10, 5)

    def _pass(self, ms: float, reason: str) -> None:
        """The loop is busy; a device that runs dry meanwhile idles for that reason."""
        end = self.now + int(ms * MS)
        self.idle[reason] += max(0, end - max(self.now, self.busy_until))
        self.now = end

    def _work(self, ms: float) -> None:
        """Something is queued on the device; the queue has room for so much only."""
        self.now = max(self.now, self.busy_until - ROOM)
        self.busy_until = max(self.now, self.busy_until) + int(ms * MS)
        self.busy += int(ms * MS)

    def _fetched(self, begin: int) -> None:
        took = self.now - begin
        self.file.row(wire.FETCH, begin, took, took, 0, took, 0, 0, 1)
        self.file.row(wire.BATCH, begin, took // 10, took // 10, 32, 0, 0, 0, 1)
        self.file.row(wire.COUNT, begin, 0, self.passes + 1, thing=1)

    def _copy(self) -> list[tuple[int, ...]]:
        """From pageable memory: the loop waits until it is done."""
        if not self.habits.copy:
            return []
        begin, device = self.now, max(self.now, self.busy_until)
        self.now = device
        self._pass(self.habits.copy, "transfer")
        return [(wire.DEVICE_COPY, begin, self.now - begin, self.now - device, 40_000_000, BLOCKING, 1, 0, 1)]

    def _compute(self) -> list[tuple[int, ...]]:
        for _ in range(self.habits.launches):
            self._pass(self.habits.issue / self.habits.launches, "launch" if not self.drained else "sync")
            self._work(self.habits.device / self.habits.launches)
            self.drained = False
        return [(wire.DEVICE_PART, self.now - 1000, 1000, 1000, 0, 0, 0, 0, 0)]

    drained: bool = False

    def _read_back(self) -> list[tuple[int, ...]]:
        if self.habits.after is None:
            return []
        begin, device = self.now, max(self.now, self.busy_until)
        self.now = device
        self._pass(0.01, "sync")
        row = (wire.DEVICE_WAIT, begin, self.now - begin, self.now - device, 0, 0, 0, 0, 2)
        self._pass(self.habits.after, "sync")
        self.drained = True
        return [row]

    def _save(self) -> list[tuple[int, ...]]:
        if not self.habits.saving or self.passes % self.habits.saving_every:
            return []
        begin, device = self.now, max(self.now, self.busy_until)
        self.now = device
        self._pass(self.habits.saving, "other")
        self.file.row(wire.OPERATION, begin, self.now - begin, 1000, 0, 0, 0, 0, 3)
        return [(wire.DEVICE_PART, begin, self.now - begin, self.now - device, 2, 0, 0, 0, 0)]


def train(
    folder: Path,
    habits: Habits,
    steps: int = 300,
    every: int = 1,
    pid: int = 100,
    built: int = 500,
    **device: object,
) -> Training:
    """The rows of such a training; every so manieth step is looked at. Its iterator took ``built``
    nanoseconds."""
    file = writer(folder, pid)
    for fact in (
        {"fact": "process", "pid": pid}, {"fact": "torch", "version": "2.13.0", "threads": 1},
        {"fact": "settled", "threads": 1, "device": "cuda"}, {"fact": "device", **DEVICE, **device},
        {"fact": "loader", "thing": 1, "dataset": "Photos", "file": "train.py", "line": 7, "length": 10_000,
         "batch_size": 32, "num_workers": 0},
        {"fact": "site", "site": 1, "kind": "copy", "file": "train.py", "line": 31},
        {"fact": "site", "site": 2, "kind": "wait", "file": "train.py", "line": 40},
    ):  # fmt: skip
        file.fact(**fact)  # type: ignore[arg-type]
    file.row(wire.EPOCH, SECOND - built - 500, built, 1, thing=1)
    training = Training(file, habits)
    for place in range(steps):
        training.step(place < 20 or place % every == 0)
    return training


def window_of(training: Training, slower: float = 1.5) -> DeviceWindow:
    """What a profiler would say: the truth, but for a loop that is slower under it."""
    steps = training.passes
    mean = {
        name: training.idle[name] / steps / SECOND
        for name in ("input", "transfer", "sync", "launch", "other")
    }
    mean["launch"] *= slower
    busy, host = training.busy / steps / SECOND, slower * training.habits.issue / 1000
    host += slower * (training.habits.after or 0.0) / 1000
    return DeviceWindow(5, busy + sum(mean.values()), busy, host_s=host,
                        **{f"{name}_s": value for name, value in mean.items()})  # fmt: skip


def trace_of(training: Training, slower: float) -> Traced:
    """What is read of a trace: the window, and what follows on the readback at site 2."""
    window = window_of(training, slower)
    wall_s = window.wall_s + (slower - 1) * window.sync_s
    window = replace(window, sync_s=slower * window.sync_s, wall_s=wall_s)
    return Traced(1, TraceTable(window, [], [], {1: 1e-4, 2: window.sync_s}))


def profile_of(
    folder: Path, samples: list[Sample] | None = None, traces: dict[int, Traced] | None = None
) -> Profile:
    """What is assembled of all rows in the folder."""
    run = Run(["train.py"], "train.py", "/", "2026-01-01T00:00:00+00:00", 60.0, 0)
    profile = assemble(Remains(folder, run, Machine("box", "6", "cpu", 8, 8.0), 0, samples or []))
    if traces is None:
        return profile
    logs = read_logs(folder)
    _, numbering = read_loaders(logs)
    iterations = {log.pid: read_iterations(log, numbering) for log in logs}
    device, others = read_devices(logs, iterations, read_drivers([], logs), [], 0, traces)
    return replace(profile, device=device, other_devices=others)
