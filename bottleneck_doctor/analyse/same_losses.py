"""Whether a treated training still computes what the untreated one does, by its first losses and batches."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..model.proof import Parity
from ..model.run import Losses, Trial

# A sum in another order, or a fused kernel, differs by some units of single precision's 6e-8 at the first
# step, which training then amplifies; another precision (TF32, bfloat16) by 1e-4 and more at once.
LAST_DIGITS = 1e-5
# A change counts only if it is this many times larger than the script's own variation.
CLEARLY_MORE = 30.0
# Batches that may be on their way where noting ends: eight workers with two each, as loaders mostly have.
IN_FLIGHT = 16
LABELS = 32  # bits below those of a checksum that are of whole numbers alone (agent/trial/losses.py)

NOTHING_SEEN = "no loss was seen: backward was not called on a single number"
ONCE = "the losses differ, and the script ran only once without it: whether it repeats itself is not known"
NOT_THE_SAME_PROCESSES = "the runs trained in different numbers of processes"
UNSTEADY = "the script's own runs differ from each other although all begin with one seed"
OTHER_ORDER = "the same batches in another order"
OTHER_BATCHES = "the loop was given other batches: shuffled otherwise, or other random numbers in them"
REDRAWN = "the same samples with other random numbers in them, as random augmentation draws"
SAME_BATCHES = "the same batches"
BATCHES_UNKNOWN = "the batches themselves could not be compared"
# The best first.
BATCHES = {
    "same": SAME_BATCHES, "unknown": BATCHES_UNKNOWN, "order": OTHER_ORDER, "redrawn": REDRAWN,
    "other": OTHER_BATCHES,
}  # fmt: skip
WORSE = list(BATCHES).index
ONLY_LAST_DIGITS = "in the last digits only"
NOT_A_NUMBER = "a loss is not a finite number in one of them only"


@dataclass(frozen=True)
class _Apart:
    """How far two runs differ: ``largest`` relative difference of losses, infinite where one is no number
    and the other is; ``batches``: same, order, redrawn, other or unknown."""

    largest: float
    steps: int
    batches: str


def parity(baselines: Sequence[Trial], treated: Sequence[Trial]) -> Parity:
    """What the treatment did to the losses; the worst of its runs counts, and all ranks do."""
    before, after = [_seen(one) for one in baselines], [_seen(one) for one in treated]
    if not before or not after or not all(before) or not all(after):
        return Parity("unknown", NOTHING_SEEN)
    pairs = [_apart(before[0], other) for other in (*before[1:], *after)]
    found = [one for one in pairs if one is not None]
    if len(found) < len(pairs):
        return Parity("unknown", NOT_THE_SAME_PROCESSES)
    own, ours = found[: len(before) - 1], found[len(before) - 1 :]
    wanted = [one.order.losses for one in (*baselines, *treated) if one.order.losses]
    return _judged(own, ours, min([*wanted, *(one.steps for one in found)]))


def _judged(own: list[_Apart], ours: list[_Apart], steps: int) -> Parity:
    """``own``: how the baseline's other runs differ from its first; ``ours``: how the treated ones do."""
    worst = max(ours, key=lambda one: (one.largest, WORSE(one.batches)))
    drift = max((one.largest for one in own), default=0.0)
    largest = worst.largest if math.isfinite(worst.largest) else None
    if drift:
        if worst.largest <= CLEARLY_MORE * drift:
            return Parity("unknown", UNSTEADY, steps, largest)
    elif not worst.largest:
        return Parity("identical", _although(worst, own), steps, 0.0)
    elif not own:
        return Parity("unknown", ONCE, steps, largest)
    if worst.batches == "order":
        return Parity("order", OTHER_ORDER, steps, largest)
    return Parity("changed", _change(worst), steps, largest)


def _although(worst: _Apart, own: list[_Apart]) -> str:
    """Which other batches equal losses hide: the loss may hardly change yet, and differ later."""
    alike = worst.batches in ("same", "unknown")
    by_itself = any(one.batches not in ("same", "unknown") for one in own)
    return "" if alike or by_itself or not own else BATCHES[worst.batches]


def _change(apart: _Apart) -> str:
    what = BATCHES[apart.batches]
    if not math.isfinite(apart.largest):
        return f"{what}; {NOT_A_NUMBER}"
    return f"{what}; losses differ {ONLY_LAST_DIGITS}" if apart.largest <= LAST_DIGITS else what


def _seen(trial: Trial) -> list[Losses]:
    """The processes that trained, in an order that two runs of one training share: by rank, and by their
    losses where no rank is known, since they may start in any order."""
    trained = [one for one in trial.losses if one.values]
    return sorted(trained, key=lambda one: (one.rank is None, one.rank or 0, one.values))


def _apart(one: list[Losses], other: list[Losses]) -> _Apart | None:
    """None where processes cannot be paired."""
    if [process.rank for process in one] != [process.rank for process in other]:
        return None
    pairs = list(zip(one, other, strict=True))
    return _Apart(
        max(
            (_difference(x, y) for a, b in pairs for x, y in zip(a.values, b.values, strict=False)),
            default=0.0,
        ),
        min(_steps(process) for pair in pairs for process in pair),
        max((_batches(a.batches, b.batches) for a, b in pairs), key=WORSE),
    )


def _steps(process: Losses) -> int:
    """A step may take several backward passes, and has one batch where a loader gives any."""
    return min(len(process.values), len(process.batches) or len(process.values))


def _difference(one: str, other: str) -> float:
    """Relative, of two numbers as ``float.hex`` writes them; what is written alike is the same."""
    if one == other:
        return 0.0
    a, b = float.fromhex(one), float.fromhex(other)
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    size = max(abs(a), abs(b))
    return abs(a - b) / size if size else 0.0


def _batches(one: Sequence[int], other: Sequence[int]) -> str:
    count = min(len(one), len(other))
    if not count:
        return "unknown"
    one, other = one[:count], other[:count]
    if one == other:
        return "same"
    common = (Counter(one) & Counter(other)).total()
    if common >= max(count - IN_FLIGHT, count / 2):
        return "order"
    labels = [number >> LABELS for number in one]
    known = len(set(labels)) > count / 2  # labels distinguish batches
    return "redrawn" if known and labels == [number >> LABELS for number in other] else "other"
