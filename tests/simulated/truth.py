"""What really kept the simulated device idle: known by construction, from all that it and the loop did."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
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
        """Seconds per step after the warm-up, and the device's time as shares that sum to one.

        Steps that hold an evaluation, or that a profiler recorded, do not count.
        """
        evaluations = [(one.begin, one.end) for one in self.phases if one.name == "evaluation"]
        apart = merged(evaluations + self.device.disturbed)
        every = list(pairwise(self.asked[WARMUP_STEPS:]))
        steps = [step for step in every if not common([step], apart)]
        whole = length(merged(steps))
        owners = {name: owned / whole for name, owned in self._owners(merged(steps)).items()}
        step_s = whole / len(steps) / 1e9
        return {"steps": len(steps), "step_s": step_s, "busy": 1 - sum(owners.values()), **owners}

    def _owners(self, steps: Spans) -> dict[str, int]:
        """Nanoseconds of idle time by whose they are: each claims in turn, of what is left. The rest belongs
        to what let the device run dry."""
        owners = dict.fromkeys((*self._claims(), "sync", "launch"), 0)
        kernels = merged((one.begin, one.end) for one in self.device.work if one.kind == "kernel")
        for name, idle in self._begun_in(rest(kernels)).items():
            gaps = common(idle, steps)
            for owner, spans in self._claims().items():
                owners[owner] += length(common(gaps, spans))
                gaps = common(gaps, rest(spans))
            owners[name] += length(gaps)
        return owners

    def _begun_in(self, idle: Spans) -> dict[str, Spans]:
        """Idle times by what the host did when they began: it waited, emptied the cache, or issued work."""
        found = {}
        left = idle
        for name, call in (("sync", "cudaStreamSynchronize"), ("memory", "cudaFree")):
            calls = merged((one.begin, one.end + 1) for one in self.device.calls if one.name == call)
            begun = {begin for begin, _ in common([(begin, begin + 1) for begin, _ in left], calls)}
            found[name] = [gap for gap in left if gap[0] in begun]
            left = [gap for gap in left if gap[0] not in begun]
        return found | {"launch": left}

    def _claims(self) -> dict[str, Spans]:
        def named(name: str) -> Spans:
            return merged((one.begin, one.end) for one in self.phases if one.name == name)

        driver = [(one.begin, one.end) for one in self.device.calls if one.name in ("cudaMalloc", "cudaFree")]
        copies = [one for one in self.device.work if one.kind == "copy"]
        copying = [(one.begin, one.end) for one in copies] + [(one.called, one.returned) for one in copies]
        return {
            "input": named("input"),
            "memory": merged(driver),
            "other": named("other"),
            "transfer": merged(copying),
        }
