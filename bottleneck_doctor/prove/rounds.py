"""Which run comes next: a baseline, each open arm, a baseline again, until all are decided or time is up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..model.proof import BASELINE, Arm, Attempt, Gain
from .gains import gain_of, is_settled, readings

ENOUGH = 2  # runs of an arm: one alone may have met with luck
MOST = 8  # runs of an arm: a difference that so many did not show does not matter to anyone (ours)
LOOKS = 2  # at the ceiling, which is an orientation and not a decision
BASELINES_LOST = 2  # so many failures of the baseline itself end the trying


def following(
    arms: Sequence[Arm],
    attempts: Sequence[Attempt],
    left_s: float,
    run_s: float,
    most: int = MOST,
    is_known: Callable[[Gain], bool] = is_settled,
) -> Arm | None:
    """The arm to run now; None when there is nothing left to know, or ``left_s`` seconds do not hold it.

    ``arms`` begin with the baseline. An arm is judged when a baseline follows it; hence one is only begun
    with time for that one. ``run_s`` is a run's length as long as none was seen. ``is_known``: whether a gain
    needs no further run.
    """
    baseline, *others = arms
    if _baseline_lost(attempts):
        return None
    last = max((place for place, one in enumerate(attempts) if one.arm == BASELINE), default=-1)
    closed, since = attempts[: last + 1], attempts[last + 1 :]
    done = {one.arm for one in since}
    baseline_s = _length(BASELINE, attempts, run_s)
    for arm in others:
        if arm.id not in done and is_open(arm, [*closed, *since], closed, most, is_known):
            needed_s = baseline_s + _length(arm.id, attempts, baseline_s) + (baseline_s if last < 0 else 0.0)
            if needed_s <= left_s:
                return arm if last >= 0 and attempts[last].outcome == "measured" else baseline
    unclosed = any(one.outcome == "measured" for one in since)
    return baseline if unclosed and baseline_s <= left_s else None


def is_open(
    arm: Arm,
    attempts: Sequence[Attempt],
    judged: Sequence[Attempt],
    most: int,
    is_known: Callable[[Gain], bool] = is_settled,
) -> bool:
    """Whether another run of the arm tells something; ``judged`` are the runs up to the last baseline."""
    mine = [one for one in attempts if one.arm == arm.id]
    if any(one.outcome != "measured" for one in mine) or len(mine) >= most:
        return False
    if arm.kind == "ceiling":
        return len(mine) < LOOKS
    gain = gain_of(arm.id, readings(judged, arm.scope))
    return len(mine) < ENOUGH or gain is None or not is_known(gain)


def _baseline_lost(attempts: Sequence[Attempt]) -> bool:
    """Whether the script itself does not run a second time, or somebody ended it all."""
    lost = [one for one in attempts if one.arm == BASELINE and one.outcome != "measured"]
    first = next((one for one in attempts if one.arm == BASELINE), None)
    interrupted = any(one.outcome == "interrupted" for one in attempts)
    return interrupted or len(lost) >= BASELINES_LOST or (first is not None and first in lost)


def _length(arm: str, attempts: Sequence[Attempt], otherwise_s: float) -> float:
    return max((one.run_s for one in attempts if one.arm == arm), default=otherwise_s)
