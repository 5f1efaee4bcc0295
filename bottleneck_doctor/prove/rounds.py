"""Which run comes next: a baseline, each open arm, a baseline again, until all are decided or time is up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..model.proof import BASELINE, Arm, Attempt, Gain
from .gains import gain_of, is_exact, is_settled, readings, verdict
from .plan import together

ENOUGH = 2  # runs of an arm: one alone may have met with luck
MOST = 8  # runs of an arm: a difference that so many did not show does not matter to anyone (ours)
LOOKS = 2  # at the ceiling, which is an orientation and not a decision
BASELINES_LOST = 2  # so many failures of the baseline itself end the trying


def next_arm(
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
        if arm.id not in done and is_open(arm, attempts, closed, most, is_known):
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


FOR_EXACTNESS = 0.8  # of the time may have passed when a gain that is sure but vague is measured again (ours)


def try_out(
    arms: Sequence[Arm],
    run: Callable[[Arm], Attempt],
    left_s: Callable[[], float],
    run_s: float,
    attempts: list[Attempt],
) -> list[Arm]:
    """Fill ``attempts``, so that whoever is interrupted has those that were made; returns all arms, with the
    combination where one was tried. ``arms`` begin with the baseline.

    What is still open after two rounds waits for the combination: time is better spent on what pays.
    """
    spared_s = (1 - FOR_EXACTNESS) * left_s()

    def until_closed(
        these: Sequence[Arm], most: int, is_known: Callable[[Gain], bool] = is_settled, spare_s: float = 0.0
    ) -> None:
        while (arm := next_arm(these, attempts, left_s() - spare_s, run_s, most, is_known)) is not None:
            attempts.append(run(arm))

    joint = None
    for most in (ENOUGH, MOST):
        until_closed(arms, most)
        if joint is None and (joint := together(kept(arms, attempts))) is not None:
            until_closed([arms[0], joint], MOST)
    every = [*arms, joint] if joint is not None else list(arms)
    until_closed(every, MOST, is_exact, spared_s)
    return every


def kept(arms: Sequence[Arm], attempts: Sequence[Attempt]) -> list[Arm]:
    """The remedies that pay, the best first."""
    gains = {arm.id: gain_of(arm.id, readings(attempts, arm.scope)) for arm in arms if arm.kind == "remedy"}
    paying = {name: gain for name, gain in gains.items() if gain is not None and verdict(gain) == "kept"}
    found = [arm for arm in arms if arm.id in paying and _worked(arm, attempts)]
    return sorted(found, key=lambda arm: -paying[arm.id].likely)


def _worked(arm: Arm, attempts: Sequence[Attempt]) -> bool:
    return all(one.outcome == "measured" for one in attempts if one.arm == arm.id)
