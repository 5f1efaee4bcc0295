"""The truth about one run, by events of its own around every wait for data; it knows nothing of bdoc."""

import contextlib
import json
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import torch
from stage import Stage
from tracer import Tracer

Batch = TypeVar("Batch")

WARMUP_STEPS = 20
TRACED_STEPS = 20


class Clock:
    """Stands around a training loop. Events are recorded on the compute stream and read when all is over:
    between the two around a wait lies the time in which the device had nothing to do without the batch."""

    def __init__(self, stage: Stage, batch: int = 1) -> None:
        self._stage, self._batch = stage, batch
        self._asked: list[Any] = []
        self._had: list[Any] = []
        self._aside: list[tuple[int, Any, Any]] = []
        self._tracer = Tracer() if stage.trace is not None else None
        self.steps = WARMUP_STEPS + TRACED_STEPS if self._tracer else stage.steps

    def loop(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The batches, over as many epochs as the steps need, with a mark on both sides of every wait."""
        iterator = iter(batches)
        while len(self._had) < self.steps:
            if self._tracer and len(self._had) == WARMUP_STEPS:
                self._tracer.begin()
            self._asked.append(self._mark())
            batch = next(iterator, None)
            if batch is None:
                iterator = iter(batches)
                batch = next(iterator)
            self._had.append(self._mark())
            yield batch
        self._asked.append(self._mark())

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Time in here belongs to no training step: evaluation."""
        began = self._mark()
        yield
        self._aside.append((len(self._had), began, self._mark()))

    def close(self, loss: torch.Tensor) -> None:
        """Wait for the device, write down what was measured, and print as training scripts do."""
        if self._tracer and self._stage.trace is not None:
            self._stage.trace.write_text(json.dumps(self._tracer.end(TRACED_STEPS)))
        if self._stage.cuda:
            torch.cuda.synchronize()
        if self._stage.truth is not None:
            self._stage.truth.write_text(json.dumps(self.truth()))
        print(f"step {self.steps} loss {loss.item():.2f}", flush=True)

    def truth(self) -> dict[str, float | int | None]:
        """Everything after the warm-up, on the device's clock. A step runs from one demand to the next."""
        first = min(WARMUP_STEPS, max(0, len(self._had) - 2))
        pairs = list(zip(self._asked, self._had, strict=False))[first:]
        steps = len(pairs)
        run_s = self._between_s(self._asked[first], self._asked[-1])
        aside_s = sum(self._between_s(a, b) for step, a, b in self._aside if step > first)
        wall_s = run_s - aside_s
        wait_s = sum(self._between_s(asked, had) for asked, had in pairs)
        return {
            "steps": steps,
            "exposed_wait_fraction": wait_s / wall_s if wall_s else None,
            "step_mean_s": wall_s / steps,
            "run_mean_s": run_s / steps,
            "sample_mean_s": wall_s / steps / self._batch,
        }

    def _mark(self) -> Any:
        if not self._stage.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _between_s(self, first: Any, last: Any) -> float:
        return first.elapsed_time(last) / 1000 if self._stage.cuda else last - first
