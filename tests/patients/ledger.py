"""The truth about one run, by timers of its own: how long each step took, and how long it waited for data."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import torch

Batch = TypeVar("Batch")

WARMUP_STEPS = 20
PRINT_EVERY = 50
FIRST = 32  # losses kept to the last bit: what a claim that they are the same is held against


class Ledger:
    """Stands around a training loop without changing it: the loop's own thread calls the real iterator.

    The ``truth`` goes to that file; where it is a folder, each process writes a file of its own in it.
    """

    def __init__(self, steps: int, truth: Path | None = None) -> None:
        self.steps = steps
        self._truth = truth
        self._arrived_s: list[float] = []
        self._waited_s: list[float] = []
        self._aside_s: list[float] = []
        self._epoch_s: list[float] = []
        self._losses: list[float] = []
        self._first: list[torch.Tensor] = []
        self._pending_s = 0.0
        self._pending_aside_s = 0.0

    def epochs(self) -> Iterator[int]:
        """Epoch numbers until every step was taken; the truth is written when they end, or are ended."""
        epoch = 0
        try:
            while not self._done():
                began, seen = time.perf_counter(), len(self._arrived_s)
                yield epoch
                assert len(self._arrived_s) > seen, "an epoch without a batch would never end"
                self._epoch_s.append(time.perf_counter() - began)
                epoch += 1
        finally:
            self._write()

    def loop(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The batches of one epoch, as ``for batch in batches`` would give them, with every wait timed."""
        with self.waiting(arrives=False):
            iterator = iter(batches)
        while not self._done():
            try:
                with self.waiting():
                    batch = next(iterator)
            except StopIteration:
                return
            yield batch

    @contextlib.contextmanager
    def waiting(self, arrives: bool = True) -> Iterator[None]:
        """Time in here is data wait; leaving it without an exception is the arrival of a batch."""
        began = time.perf_counter()
        try:
            yield
        except BaseException:
            self._pending_s += time.perf_counter() - began
            raise
        ended = time.perf_counter()
        self._pending_s += ended - began
        if arrives:
            self._arrived_s.append(ended)
            self._waited_s.append(self._pending_s)
            self._aside_s.append(self._pending_aside_s)
            self._pending_s = self._pending_aside_s = 0.0

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Time in here belongs to no training step: evaluation."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._pending_aside_s += time.perf_counter() - began

    def note(self, loss: torch.Tensor) -> None:
        """Print the loss now and then, as training scripts do; the same text in every run."""
        step = len(self._arrived_s)
        if len(self._first) < FIRST:
            self._first.append(loss.detach())
        if step % PRINT_EVERY == 0 or step == self.steps:
            self._losses.append(loss.item())
            print(f"step {step} loss {self._losses[-1]:.5f}", flush=True)

    def _done(self) -> bool:
        return len(self._arrived_s) >= self.steps

    def _write(self) -> None:
        if self._truth is not None:
            file = self._truth / f"{os.getpid()}.json" if self._truth.is_dir() else self._truth
            file.write_text(json.dumps(self.truth()))

    def truth(self) -> dict[str, object]:
        """Everything after the warm-up steps; a step runs from one arrival to the next."""
        first = min(WARMUP_STEPS, max(0, len(self._arrived_s) - 2))
        wait_s, aside_s = self._waited_s[first + 1 :], self._aside_s[first + 1 :]
        arrived_s = self._arrived_s[first:]
        step_s = [b - a - x for a, b, x in zip(arrived_s, arrived_s[1:], aside_s, strict=False)]
        wall_s = sum(step_s)
        return {
            "steps": len(step_s),
            "wall_s": wall_s,
            "wait_s": sum(wait_s),
            "wait_fraction": sum(wait_s) / wall_s if wall_s else None,
            "aside_s": sum(aside_s),
            "step_median_s": statistics.median(step_s) if step_s else None,
            "step_mean_s": statistics.fmean(step_s) if step_s else None,
            "run_mean_s": (wall_s + sum(aside_s)) / len(step_s) if step_s else None,
            "first_epoch_s": self._epoch_s[0] if self._epoch_s else None,
            "losses": self._losses,
            "first_losses": [loss.item().hex() for loss in self._first],
            "order": _order(),
        }


def _order() -> dict[str, object] | None:
    """What bdoc was told to change in this process, where it is a trial: the truth says whose it is."""
    file = os.environ.get("BDOC_TRIAL")
    return json.loads(Path(file).read_text()) if file else None
