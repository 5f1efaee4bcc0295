"""What really kept the simulated device idle: known by construction, from all that it and the loop did."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from time import monotonic_ns as now
from typing import TypeVar

from tests.simulated.device import Device
from tests.simulated.spans import Spans, common, length, merged, rest

Batch = TypeVar("Batch")

WARMUP_STEPS = 20


class Truth:
    """Stands around a training loop, like tests/patients/ledger.py, and knows the device beside."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.asked: list[int] = []
        self.waits: Spans = []

    def loop(self, batches: Iterable[Batch], steps: int) -> Iterator[Batch]:
        """So many batches, epoch after epoch; waiting for them is noted."""
        while True:
            with self.waiting():
                iterator = iter(batches)
            while True:
                if len(self.asked) >= steps:
                    return
                self.asked.append(now())
                try:
                    with self.waiting():
                        batch = next(iterator)
                except StopIteration:
                    self.asked.pop()
                    break
                yield batch

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """The loop waits for input."""
        begin = now()
        try:
            yield
        finally:
            self.waits.append((begin, now()))

    def write(self, path: Path | None) -> None:
        """The answer, as JSON."""
        if path is not None:
            path.write_text(json.dumps(self.answer()))

    def answer(self) -> dict[str, float]:
        """Seconds per step after the warm-up, and two shares of the device's time: ``busy`` with kernels, and
        idle while the loop waits for ``input``. Steps that a profiler recorded do not count."""
        apart = merged(self.device.disturbed)
        steps = [step for step in pairwise(self.asked[WARMUP_STEPS:]) if not common([step], apart)]
        counted = merged(steps)
        whole = length(counted)
        kernels = merged((one.begin, one.end) for one in self.device.work if one.kind == "kernel")
        waits = common(rest(kernels), merged(self.waits))
        return {
            "steps": len(steps),
            "step_s": whole / len(steps) / 1e9,
            "busy": length(common(kernels, counted)) / whole,
            "input": length(common(waits, counted)) / whole,
        }
