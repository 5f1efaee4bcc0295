"""Tells when a training has been seen long enough for its step time to be known."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import fmean, stdev

from ..model.live import Progress

WARMUP_STEPS = 20  # as for the instruments: lazy imports, allocator and full queues lie behind
STEPS_AT_LEAST = 200  # "a few hundred": rhythms of a hundred steps are seen twice
SECONDS_AT_LEAST = 8.0  # after the first batch: the sensors that look into blocked workers need some looks
SLOW_STEP_S = 0.5  # from here on, so many steps would cost minutes, and the noise of each is smaller
SLOW_STEPS_AT_LEAST = 30
SLOW_SECONDS_AT_LEAST = 30.0
STEPS_AT_MOST = 1000
SECONDS_AT_MOST = 60.0  # what is uneven after that will not be even soon
SLOW_SECONDS_AT_MOST = 180.0  # for steps so slow that the fewest do not fit into that
TIGHT = 0.02  # half the 90 % interval of the mean step, as a share of it
LOOSE = 0.05  # where the machine is so restless that this is all that can be had
BLOCKS = 20  # means of so many stretches are compared: steps that follow each other are no strangers (ours)
BLOCKS_AT_LEAST = 12
STUDENT = 1.75  # 0.95 quantile of Student's t for 12 to 20 blocks: 1.80 to 1.73
NEAR_SHARE = 0.25  # of the time so far, or
NEAR_S = 3.0  # this long, to the end of an epoch: then it is waited for
POINTS_AT_MOST = 4096
BEYOND = 2  # steps after an epoch's end, so that the way into the next one is seen


@dataclass
class Enough:
    """What is known of the pace of the process that has come furthest."""

    _seen: list[tuple[int, int]] = field(default_factory=list)  # (steps, nanoseconds) between two looks
    _last: Progress | None = None
    _epoch_steps: int = 0
    _disturbed: bool = False

    def look(self, front: Progress, disturbed: bool) -> None:
        """Called now and then. What passes while an instrument disturbs does not count."""
        last, before = self._last, self._disturbed
        if last is not None and front.pid == last.pid and front.last_ns == last.last_ns:
            self._disturbed = before or disturbed
            return
        self._last, self._disturbed = front, disturbed
        if last is None or front.pid != last.pid or _count(last) < WARMUP_STEPS:
            return
        if front.epoch_at > last.epoch_at:
            self._epoch_steps = front.epoch_at - last.epoch_at
        steps = _count(front) - _count(last)
        if steps > 0 and not (before or disturbed) and len(self._seen) < POINTS_AT_MOST:
            self._seen.append((steps, front.last_ns - last.last_ns))

    def is_enough(self, instruments_over: bool) -> bool:
        """Whether the training may end now."""
        if self._last is None:
            return False
        steps, span_s = sum(steps for steps, _ in self._seen), self._elapsed_s()
        if self._step_s() >= SLOW_STEP_S:
            return span_s >= SLOW_SECONDS_AT_MOST or (
                instruments_over and steps >= SLOW_STEPS_AT_LEAST and span_s >= SLOW_SECONDS_AT_LEAST
            )
        if span_s >= SECONDS_AT_MOST or not instruments_over:
            return span_s >= SECONDS_AT_MOST
        if steps < STEPS_AT_LEAST or span_s < SECONDS_AT_LEAST:
            return False
        left = min(STEPS_AT_MOST - _count(self._last), (SECONDS_AT_MOST - span_s) / self._step_s())
        width = half_width(self._seen)
        if left <= 0 or width is None:
            return left <= 0
        hopeless = width * math.sqrt(steps / (steps + left)) > TIGHT  # even with all that may yet be seen
        return width <= (LOOSE if hopeless else TIGHT)

    def end_at(self) -> int:
        """The trained step with which a short epoch ends, where that is near; else 0."""
        front = self._last
        if front is None or not self._epoch_steps:
            return 0
        end = front.epoch_at + self._epoch_steps + BEYOND
        left_s = (end - front.trained) * self._step_s()
        return end if 0 < left_s <= max(NEAR_S, NEAR_SHARE * self._elapsed_s()) else 0

    def _elapsed_s(self) -> float:
        if self._last is None or not self._last.first_ns:
            return 0.0
        return (self._last.last_ns - self._last.first_ns) / 1e9

    def _step_s(self) -> float:
        """Of the steps that count; of all, as long as there are none."""
        if steps := sum(steps for steps, _ in self._seen):
            return sum(taken for _, taken in self._seen) / 1e9 / steps
        return self._elapsed_s() / max(1, _count(self._last)) if self._last is not None else 0.0


def half_width(seen: list[tuple[int, int]]) -> float | None:
    """Half the 90 % interval of the mean step, as a share of it, from (steps, nanoseconds) of stretches in
    order; None while they are too few to say."""
    means = _blocks(seen)
    if len(means) < BLOCKS_AT_LEAST:
        return None
    return STUDENT * stdev(means) / math.sqrt(len(means)) / fmean(means)


def _blocks(seen: list[tuple[int, int]]) -> list[float]:
    """Mean step, in nanoseconds, of blocks of neighbours with about as many steps each."""
    wanted = sum(steps for steps, _ in seen) / BLOCKS
    means: list[float] = []
    block_steps = block_ns = 0
    for steps, taken in seen:
        block_steps, block_ns = block_steps + steps, block_ns + taken
        if block_steps >= wanted:
            means.append(block_ns / block_steps)
            block_steps = block_ns = 0
    return means


def _count(one: Progress) -> int:
    """Trained steps; of a loop that only reads, as for inference, its batches."""
    return one.trained or one.steps
