"""What really kept the simulated device idle: known by construction, from all that it did and why it waited."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic_ns as now
from typing import NamedTuple, TypeVar

from tests.simulated.device import Device
from tests.simulated.spans import Spans, common, length, merged, rest

Batch = TypeVar("Batch")

WARMUP_STEPS = 20


class Span(NamedTuple):
    """A stretch of time with a name."""

    name: str
    begin: int
    end: int


class Truth:
    """Stands around a training loop, like tests/patients/ledger.py, and knows the device beside."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.asked: list[int] = []
        self.phases: list[Span] = []

    def loop(self, batches: Iterable[Batch], steps: int) -> Iterator[Batch]:
        """So many batches, epoch after epoch; waiting for them is noted."""
        while True:
            with self.during("input"):
                iterator = iter(batches)
            while True:
                if len(self.asked) >= steps:
                    return
                self.asked.append(now())
                try:
                    with self.during("input"):
                        batch = next(iterator)
                except StopIteration:
                    self.asked.pop()
                    break
                yield batch

    @contextlib.contextmanager
    def during(self, name: str) -> Iterator[None]:
        """The loop does something that has a name: input, other."""
        begin = now()
        try:
            yield
        finally:
            self.phases.append(Span(name, begin, now()))

    def write(self, path: Path | None) -> None:
        """The answer, as JSON."""
        if path is not None:
            path.write_text(json.dumps(self.answer()))

    def answer(self) -> dict[str, float]:
        """Seconds per step after the warm-up, and the device's time as shares that sum to one."""
        begin, end = self.asked[WARMUP_STEPS], self.asked[-1]
        steps = len(self.asked) - 1 - WARMUP_STEPS
        kernels = merged((one.begin, one.end) for one in self.device.work if one.kind == "kernel")
        idle = common(rest(kernels), [(begin, end)])
        owners = {name: owned / (end - begin) for name, owned in self._owners(idle).items()}
        busy = 1 - length(idle) / (end - begin)
        return {"steps": steps, "step_s": (end - begin) / steps / 1e9, "busy": busy, **owners}

    def _owners(self, idle: Spans) -> dict[str, int]:
        """Nanoseconds of idle time by whose they are: each claims in turn, of what is left."""
        owners = dict.fromkeys((*self._claims(), "sync", "launch"), 0)
        for name, gaps in zip(("sync", "launch"), self._after_waits(idle), strict=True):
            for owner, spans in self._claims().items():
                owners[owner] += length(common(gaps, spans))
                gaps = common(gaps, rest(spans))
            owners[name] += length(gaps)
        return owners

    def _after_waits(self, idle: Spans) -> tuple[Spans, Spans]:
        """Idle times that began while the host waited for the device, and the others."""
        waits = merged((one.begin, one.end) for one in self.device.calls if one.name != "cudaMalloc")
        began = common([(begin, begin + 1) for begin, _ in idle], waits)
        drained = {begin for begin, _ in began}
        return [gap for gap in idle if gap[0] in drained], [gap for gap in idle if gap[0] not in drained]

    def _claims(self) -> dict[str, Spans]:
        def named(name: str) -> Spans:
            return merged((one.begin, one.end) for one in self.phases if one.name == name)

        driver = [(one.begin, one.end) for one in self.device.calls if one.name in ("cudaMalloc", "cudaFree")]
        copies = [(one.begin, one.end) for one in self.device.work if one.kind == "copy"]
        return {
            "input": named("input"),
            "memory": merged(driver),
            "other": named("other"),
            "transfer": merged(copies),
        }
