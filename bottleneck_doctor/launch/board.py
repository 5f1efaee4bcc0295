"""The counters that agents keep during a run, the orders they obey, and the limits that end a run."""

from __future__ import annotations

import math
import mmap
import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev

from ..agent import wire
from ..model.run import Gap, Progress
from .signals import nudge

PROCESSES_AT_MOST = 1024  # that live at one time
KEPT_OF_ENDED = 256  # files of processes that did not train: so many of the first, and as many of the last
STOPPED = '{"fact": "stopped"'


class Board:
    """The headers of one run folder. Nothing here raises: a file that is not there yet is not there.

    Only the supervisor is ``in_command``: other readers must not write orders.
    """

    def __init__(self, folder: Path, in_command: bool = True) -> None:
        self._folder = folder
        self._maps: dict[str, tuple[int, mmap.mmap]] = {}
        self._ended: list[str] = []  # that did not train, in the order of their end
        self._removed = 0  # files of such processes
        self._control = _control(folder) if in_command else None

    def refresh(self) -> None:
        """Look for processes that appeared since the last time."""
        known = {*self._maps, *self._ended}
        for name in self._names(".rows"):
            if name not in known and len(self._maps) < PROCESSES_AT_MOST:
                self._open(name)
        self._let_go()

    def _let_go(self) -> None:
        """Close the files of ended processes that did not train, and delete all but the first and last 256:
        workers that are started anew for each epoch would fill the disk."""
        for name, (pid, header) in list(self._maps.items()):
            if wire.WORD.unpack_from(header, wire.FIRST)[0] or os.path.exists(f"/proc/{pid}"):
                continue
            del self._maps[name]
            header.close()
            self._ended.append(name)
            if self._control is not None and len(self._ended) > 2 * KEPT_OF_ENDED:
                self._removed += 1
                rows = self._ended.pop(KEPT_OF_ENDED)
                for one in (rows, rows.removesuffix(".rows") + ".facts"):
                    with suppress(OSError):
                        os.unlink(self._folder / one)

    def _names(self, suffix: str) -> list[str]:
        try:
            with os.scandir(self._folder) as entries:
                return [entry.name for entry in entries if entry.name.endswith(suffix)]
        except OSError:
            return []

    def _open(self, name: str) -> None:
        try:
            with open(self._folder / name, "rb") as file:
                header = mmap.mmap(file.fileno(), wire.HEADER_BYTES, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            return
        magic, version, _, pid, _, _ = wire.IDENTITY.unpack_from(header, 0)
        if magic == wire.MAGIC and version == wire.VERSION:
            self._maps[name] = (pid, header)

    def gaps(self) -> list[Gap]:
        """What was not kept."""
        if not self._removed:
            return []
        why = f"of those that ended only the first {KEPT_OF_ENDED} and the last are kept, to spare the disk"
        return [Gap(f"{self._removed} worker processes", why)]

    def fetching(self) -> list[tuple[int, int]]:
        """(pid, native thread id) of every thread that is inside a fetch right now."""
        return self._threads(wire.FETCHING)

    def training(self) -> list[tuple[int, int]]:
        """(pid, native thread id) of every thread that runs a training loop."""
        return self._threads(wire.TRAINER)

    def feeding(self) -> list[tuple[int, int]]:
        """(pid, native thread id) of every thread that a training loop waits for, in a queue or a future."""
        return self._threads(wire.FEEDER)

    def _threads(self, word: int) -> list[tuple[int, int]]:
        known = ((pid, wire.WORD.unpack_from(header, word)[0]) for pid, header in self._maps.values())
        return [(pid, thread) for pid, thread in known if thread]

    def progress(self) -> list[Progress]:
        """Every process that trains, the furthest first."""
        here = sum(bool(wire.WORD.unpack_from(header, wire.WORLD)[0]) for _, header in self._maps.values())
        found = [_progress(pid, header, here) for pid, header in self._maps.values()]
        return sorted((one for one in found if one.steps), key=lambda one: (-one.trained, -one.steps))

    def stopped(self) -> bool:
        """Whether an agent has ended its training by our order."""
        for name in self._names(".facts"):
            with suppress(OSError), open(self._folder / name, encoding="utf-8", errors="replace") as lines:
                if any(line.startswith(STOPPED) for line in lines):
                    return True
        return False

    def stop_at(self, trained: int) -> None:
        """Order every training process to end when it has trained that many steps."""
        self._order(wire.STOP_AT, trained)

    def ask_for_profile(self, windows: int) -> None:
        """Request torch.profiler windows; ``windows`` is their number so far."""
        self._order(wire.PROFILE, windows)

    def _order(self, word: int, value: int) -> None:
        if self._control is not None:
            wire.WORD.pack_into(self._control, word, value)


def _control(folder: Path) -> mmap.mmap | None:
    try:
        with open(folder / "control", "w+b") as file:
            file.write(b"\0" * wire.CONTROL_BYTES)
            file.flush()
            return mmap.mmap(file.fileno(), wire.CONTROL_BYTES)
    except (OSError, ValueError):
        return None


def _progress(pid: int, header: mmap.mmap, here: int) -> Progress:
    """One process's counters; ``here``: how many ranks are in this run."""

    def word(offset: int) -> int:
        return int(wire.WORD.unpack_from(header, offset)[0])

    return Progress(
        pid=pid,
        steps=word(wire.STEPS),
        trained=word(wire.TRAINED),
        wait_ns=word(wire.WAIT),
        first_ns=word(wire.FIRST),
        last_ns=word(wire.LAST),
        windows=word(wire.WINDOW),
        profiled=bool(word(wire.WINDOW_OPEN)),
        epoch_at=word(wire.EPOCH_AT),
        elsewhere=max(0, word(wire.WORLD) - here),
    )


MARGIN_STEPS = 3  # ahead of the furthest rank, so that all ranks read the order before they reach it
MARGIN_S = 0.5
SWALLOWED_S = 20.0  # for a script that trains on, or hangs before it read the order
LAST_WORK_S = 120.0  # for one that trains no more: it may be writing its last checkpoint
INSISTENCE = (signal.SIGINT, signal.SIGTERM)


@dataclass
class Limit:
    """``max_steps`` and ``max_seconds`` as asked for; ``due`` is the limit reached first, ``sent`` are the
    signals that had to follow. ``refused``: ranks in other runs end at a step of their own, and would wait
    for ranks stopped here; ``max_steps`` is the same step for all."""

    board: Board
    max_steps: int | None
    max_seconds: float | None
    due: str | None = None
    refused: bool = False
    sent: list[int] = field(default_factory=list)
    _stop_at: int = 0
    _due_ns: int = 0

    def arm(self) -> None:
        """Order the end at ``max_steps``."""
        if self.max_steps is not None:
            self._order(self.max_steps)

    def look(self, pid: int, progress: list[Progress], now_ns: int) -> None:
        """Called now and then while the training runs."""
        if not progress:
            return
        front = progress[0]
        if self.due is None and self.max_steps is not None and front.trained >= self.max_steps:
            self.due, self._due_ns = "max-steps", now_ns
        if self.due is not None:
            self._insist(pid, front, now_ns)
        elif front.first_ns and (now_ns - front.first_ns) / 1e9 >= (self.max_seconds or math.inf):
            self.end("max-seconds", front, now_ns)

    def stopped(self) -> str | None:
        """The limit that ended the training; None if it ended by itself before it read the order."""
        if not self.sent and not self.board.stopped():
            return None
        return self.due or "max-steps"

    def excuses(self, exit_status: int) -> bool:
        """Whether the training left as one does that dies of a signal which we had to send."""
        return exit_status - 128 in self.sent

    def end(self, due: str, front: Progress, now_ns: int, at: int = 0) -> None:
        """Order the end for reason ``due``, as soon as all ranks can read it, or when ``at`` is trained."""
        if front.elsewhere:
            self.refused = True
            return
        step_s = _elapsed_s(front) / max(1, _count(front))
        ahead = max(MARGIN_STEPS, round(MARGIN_S / max(step_s, 1e-6)), at - _count(front))
        self._order(min(_count(front) + ahead, self.max_steps or 1 << 62))
        self.due, self._due_ns = due, now_ns + int(ahead * step_s * 1e9)

    def _order(self, steps: int) -> None:
        self._stop_at = steps
        self.board.stop_at(steps)

    def _insist(self, pid: int, front: Progress, now_ns: int) -> None:
        """A script that swallowed the end, or hangs, is interrupted, then terminated."""
        trains_on = _count(front) > self._stop_at + MARGIN_STEPS
        patience_s = SWALLOWED_S if trains_on else LAST_WORK_S
        if len(self.sent) < len(INSISTENCE) and now_ns - self._due_ns > patience_s * 1e9:
            nudge(pid, INSISTENCE[len(self.sent)])
            self.sent.append(INSISTENCE[len(self.sent)])
            self._due_ns = now_ns


WARMUP_STEPS = 20  # as for the instruments: lazy imports, allocator and full queues lie behind
STEPS_AT_LEAST = 200  # "a few hundred": rhythms of a hundred steps are seen twice
SECONDS_AT_LEAST = 8.0  # after the first batch: the sensors that look into blocked workers need some looks
SLOW_STEP_S = 0.5  # from here on, so many steps would cost minutes, and the noise of each is smaller
SLOW_STEPS_AT_LEAST = 30
SLOW_SECONDS_AT_LEAST = 30.0
STEPS_AT_MOST = 1000
SECONDS_AT_MOST = 60.0  # step times that are noisy after that stay noisy
SLOW_SECONDS_AT_MOST = 180.0  # for steps so slow that the fewest do not fit into that
TIGHT = 0.02  # half the 90 % interval of the mean step, as a share of it
LOOSE = 0.05  # the same on a machine with too much noise for TIGHT
# Blocks of steps, whose means are compared, since neighbouring steps are correlated: 10 to 30 are advised
# [Schmeiser 1982, Batch size effects in the analysis of simulation output].
BLOCKS = 20
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
        """Called now and then. Steps during which an instrument runs do not count."""
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
        steps, span_s = sum(steps for steps, _ in self._seen), _elapsed_s(self._last)
        step_s = self._step_s(self._last)
        if step_s >= SLOW_STEP_S:
            return span_s >= SLOW_SECONDS_AT_MOST or (
                instruments_over and steps >= SLOW_STEPS_AT_LEAST and span_s >= SLOW_SECONDS_AT_LEAST
            )
        if span_s >= SECONDS_AT_MOST or not instruments_over:
            return span_s >= SECONDS_AT_MOST
        if steps < STEPS_AT_LEAST or span_s < SECONDS_AT_LEAST:
            return False
        left = min(STEPS_AT_MOST - _count(self._last), (SECONDS_AT_MOST - span_s) / step_s)
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
        left_s = (end - front.trained) * self._step_s(front)
        return end if 0 < left_s <= max(NEAR_S, NEAR_SHARE * _elapsed_s(front)) else 0

    def _step_s(self, last: Progress) -> float:
        """Seconds per step: of the steps that count, or of all while there are none."""
        if steps := sum(steps for steps, _ in self._seen):
            return sum(taken for _, taken in self._seen) / 1e9 / steps
        return _elapsed_s(last) / max(1, _count(last))


def half_width(seen: list[tuple[int, int]]) -> float | None:
    """Half the 90 % interval of the mean step, as a share of it, from (steps, nanoseconds) of stretches in
    order; None while they are too few to say. Blocks of neighbours with about as many steps are compared."""
    wanted = sum(steps for steps, _ in seen) / BLOCKS
    means: list[float] = []
    block_steps = block_ns = 0
    for steps, taken in seen:
        block_steps, block_ns = block_steps + steps, block_ns + taken
        if block_steps >= wanted:
            means.append(block_ns / block_steps)
            block_steps = block_ns = 0
    if len(means) < BLOCKS_AT_LEAST:
        return None
    return STUDENT * stdev(means) / math.sqrt(len(means)) / fmean(means)


def _count(one: Progress) -> int:
    """Trained steps; of a loop that only reads, as for inference, its batches."""
    return one.trained or one.steps


def _elapsed_s(one: Progress) -> float:
    """Seconds from the first batch to the last."""
    return (one.last_ns - one.first_ns) / 1e9 if one.first_ns else 0.0
