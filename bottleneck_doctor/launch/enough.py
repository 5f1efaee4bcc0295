"""Tells when a training has been seen long enough for its step time to be known."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import fmean, stdev

from ..model.progress import Progress

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
        if last.epoch_at and front.epoch_at > last.epoch_at:
            self._epoch_steps = front.epoch_at - last.epoch_at
        steps = _count(front) - _count(last)
        if steps > 0 and not (before or disturbed) and len(self._seen) < POINTS_AT_MOST:
            self._seen.append((steps, front.last_ns - last.last_ns))

    def is_enough(self, instruments_over: bool) -> bool:
        """Whether the training may end now."""
        steps, span_s, step_s = self._steps(), self._elapsed_s(), self._step_s()
        if step_s is None or step_s >= SLOW_STEP_S:
            return span_s >= SLOW_SECONDS_AT_MOST or (
                instruments_over and steps >= SLOW_STEPS_AT_LEAST and span_s >= SLOW_SECONDS_AT_LEAST
            )
        spent = max(steps / STEPS_AT_MOST, span_s / SECONDS_AT_MOST)  # of what may be spent, as a share
        if span_s >= SECONDS_AT_MOST or not instruments_over:
            return span_s >= SECONDS_AT_MOST
        if steps < STEPS_AT_LEAST or span_s < SECONDS_AT_LEAST:
            return False
        width = half_width(self._seen)
        if spent >= 1 or width is None:
            return spent >= 1
        hopeless = width * math.sqrt(spent) > TIGHT  # more of the same would not make it tight in time
        return width <= (LOOSE if hopeless else TIGHT)

    def end_at(self) -> int:
        """The trained step with which a short epoch ends, where that is near; else 0."""
        step_s, front = self._step_s(), self._last
        if not self._epoch_steps or step_s is None or front is None:
            return 0
        end = front.epoch_at + self._epoch_steps + BEYOND
        left_s = (end - front.trained) * step_s
        return end if 0 < left_s <= max(NEAR_S, NEAR_SHARE * self._elapsed_s()) else 0

    def _elapsed_s(self) -> float:
        return (self._last.last_ns - self._last.first_ns) / 1e9 if self._last is not None else 0.0

    def _steps(self) -> int:
        return sum(steps for steps, _ in self._seen)

    def _step_s(self) -> float | None:
        steps = self._steps()
        return sum(taken for _, taken in self._seen) / 1e9 / steps if steps else None


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
