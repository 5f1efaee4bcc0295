"""Phases of a run: stretches at different levels, each with its verdict, and the one that is reported on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from statistics import median

from ..model.diagnosis import Diagnosis, Step
from ..model.report import Phase
from .steady import SteadyWindow
from .steps import seconds_in, steps_in

LAST_SHARE = 0.25  # of the time at least, or the last phase is no sign of what is to come (ours)

Judge = Callable[[list[Step]], Diagnosis]


def tell_apart(window: SteadyWindow, judge: Judge) -> tuple[Diagnosis, list[Phase]]:
    """The diagnosis of the phase that stands for the rest of the training, and all phases.

    Neighbours with the same bottleneck are one phase at two paces; a beginning stays apart in any case.
    """
    if not window.stretches:
        return judge([]), []
    judged = [judge(steps) for steps in window.stretches]
    place = 1 if window.beginning else 0
    while place + 1 < len(judged):
        if _same(judged[place], judged[place + 1]):
            judged[place : place + 2] = [judge(judged[place].steps + judged[place + 1].steps)]
        else:
            place += 1
    main = _main(judged, window.beginning)
    phases = _phases(judged, main, window)
    return _saying_so(judged[main], phases[main], len(phases), window.beginning), phases


def _same(one: Diagnosis, other: Diagnosis) -> bool:
    bounds = one.verdict.bound, other.verdict.bound
    same = bounds[0] == bounds[1] and one.verdict.cause == other.verdict.cause
    return same or "inconclusive" in bounds


def _main(judged: list[Diagnosis], beginning: bool) -> int:
    """The last phase, which the training goes on with; where it is short, the longest."""
    later = list(range(1 if beginning else 0, len(judged)))
    walls = {place: seconds_in(judged[place].steps) for place in later}
    if walls[later[-1]] >= LAST_SHARE * sum(walls.values()):
        return later[-1]
    return max(later, key=lambda place: walls[place])


def _phases(judged: list[Diagnosis], main: int, window: SteadyWindow) -> list[Phase]:
    counts = [steps_in(one.steps) for one in judged]
    ends = [window.warmup_steps + end for end in accumulate(counts)]
    return [
        Phase(end - count, end, _label(judged, place, main, window.beginning), one.verdict)
        for place, (one, count, end) in enumerate(zip(judged, counts, ends, strict=True))
    ]


def _label(judged: list[Diagnosis], place: int, main: int, beginning: bool) -> str:
    if place == main:
        return "steady"
    if place or not beginning:
        return "earlier" if place < main else "later"
    walls = [median(step.wall for step in judged[one].steps) for one in (0, 1)]
    return "first stretch (cold)" if walls[0] > walls[1] else "first stretch (faster)"


def _saying_so(main: Diagnosis, phase: Phase, phases: int, beginning: bool) -> Diagnosis:
    """A bottleneck that changes in mid-run is said where it cannot be overlooked."""
    if phases <= (2 if beginning else 1):
        return main
    said = (
        f"{main.verdict.summary}; so it was in steps {phase.from_step} to {phase.to_step}, not in all others"
    )
    return replace(main, verdict=replace(main.verdict, summary=said))
