"""Runs the arms round by round: each until it is judged, the best together, what is open, what is vague."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..model.proof import Arm, Attempt, Gain
from .gains import gain_of, is_exact, is_settled, readings, verdict
from .plan import together
from .rounds import ENOUGH, MOST, following

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
        these: Sequence[Arm],
        most: int,
        is_known: Callable[[Gain], bool] = is_settled,
        spare_s: float = 0.0,
    ) -> None:
        while (arm := following(these, attempts, left_s() - spare_s, run_s, most, is_known)) is not None:
            attempts.append(run(arm))

    until_closed(arms, ENOUGH)
    joint = together(kept(arms, attempts))
    if joint is not None:
        until_closed([arms[0], joint], MOST)
    until_closed(arms, MOST)
    if joint is None:
        joint = together(kept(arms, attempts))
        if joint is not None:
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
