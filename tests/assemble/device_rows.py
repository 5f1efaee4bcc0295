"""Writes the rows of a training on a made-up device: each step waits for 3 of its 10 ms."""

from dataclasses import dataclass, replace
from pathlib import Path

from bottleneck_doctor.agent import wire
from bottleneck_doctor.agent.rows import EventWriter
from bottleneck_doctor.assemble.profile import assemble
from bottleneck_doctor.model.instruments import InstrumentWindow, Sample
from bottleneck_doctor.model.profile import Profile
from tests.assemble.test_profile import remains, writer

MS, SECOND = 1_000_000, 1_000_000_000
DEVICE = {"kind": "cuda", "index": 0, "name": "Simulated", "uuid": "5ca1ab1e-0000", "capability": [9, 0],
          "memory_bytes": 80 << 30, "hip": None}  # fmt: skip


@dataclass
class Training:
    """A process that trains, step by step."""

    file: EventWriter
    now: int = SECOND
    steps: int = 0

    def step(self, copied: int | None = None, heard: bool = True, looked: bool = True) -> None:
        """A sampled step; with ``copied``, the bits of a copy that takes 2 ms, and a wait for the device. The
        device's clock is read where ``looked``."""
        self.steps += 1
        t, n = self.now, self.steps
        self.file.row(wire.NEXT, t, 3 * MS, n, 3 * MS, 3 * MS * n, n, n, 1)
        self.file.row(wire.CLOCKS, t, 1, t, t, 0, wire.NOTHING, 0, 1)
        if looked:
            copies = 0 if heard else wire.NOTHING
            self.file.row(wire.DEVICE_STEP, t, 10 * MS, 3 * MS, 10 * MS, copies, 1, 0, 1)
        if copied is not None:
            self.file.row(wire.DEVICE_COPY, t + 4 * MS, 2 * MS, 2 * MS, 40_000_000, copied, 1, 0, 1)
            self.file.row(wire.DEVICE_WAIT, t + 7 * MS, MS, MS, 0, 0, 0, 0, 2)
        self.file.row(wire.BACKWARD, t + 9 * MS, 5)
        self.now += 10 * MS


def train(
    folder: Path, steps: int = 40, every: int = 1, pid: int = 100, built: int = 500,
    copied: int | None = None, **device: object,
) -> Training:  # fmt: skip
    """So many steps, the first twenty and then every so manieth sampled; the iterator took ``built`` ns."""
    file = writer(folder, pid)
    for fact in (
        {"fact": "device", **DEVICE, **device},
        {"fact": "loader", "thing": 1, "dataset": "Photos", "file": "train.py", "line": 7},
        {"fact": "site", "site": 1, "kind": "copy", "file": "train.py", "line": 31},
        {"fact": "site", "site": 2, "kind": "wait", "file": "train.py", "line": 40},
    ):
        file.fact(**fact)  # type: ignore[arg-type]
    file.row(wire.EPOCH, SECOND - built - 500, built, 1, thing=1)
    training = Training(file)
    for place in range(steps):
        if place < 20 or place % every == 0:
            training.step(copied)
        else:
            training.steps, training.now = training.steps + 1, training.now + 10 * MS
    return training


def profile_of(
    folder: Path, samples: list[Sample] | None = None, windows: list[InstrumentWindow] | None = None
) -> Profile:
    """What is assembled of all rows in the folder."""
    return assemble(replace(remains(folder, samples), windows=windows or []))
