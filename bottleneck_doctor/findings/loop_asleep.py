"""The training loop sleeps in lines of its own: on a timer, or for an answer from elsewhere.

## What it means
In each step the loop asks somebody, such as a server, an instrument or another process, and sleeps until the
answer is there. It is neither data nor model that it waits for.

## Why it costs
Nothing of the step goes on meanwhile. Sleep takes no core: it could pass beside the step.

## How it is measured
Kernel clocks tell for how long the loop's thread was neither running nor ready. Stack samples say in whose
lines it slept: sleep in the model's other threads, in checkpoints and in logging is not counted here.

## Thresholds
At least 0.1 of the step (ours).

## When this advice is wrong
Where the step needs the answer at once, and what is asked depends on the step before, nothing can pass
meanwhile: then only a quicker answer, or fewer questions, help.

## Prediction
None: how much can pass beside the step is not measured. At most all of the sleep.

## References
Python documentation, "concurrent.futures".
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ..analyse.attribution import attribute
from ..analyse.causes import gain
from ..model.code import Location
from ..model.computing import Computing
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal, StepCost
from ..model.report import Evidence, Fix
from .parts.computing import case_of
from .parts.entry import Case, Entry, given, steady_steps
from .parts.lines import STACKS

ID = "loop-asleep"
ASLEEP_SHARE = 0.1  # of the step (ours)

ASK_AHEAD = Proposal(
    id="ask-ahead",
    title="ask in a thread, and let the step go on",
    fix=Fix(
        "start it early, take its result where it is needed",
        "pool = ThreadPoolExecutor(1)           # once\n"
        "answer = pool.submit(ask, question)    # as early as it is known\n"
        "...                                    # the step\n"
        "use(answer.result())                   # where it is needed",
    ),
    effort="hours",
    risk="what is asked must not depend on what the step computes meanwhile",
    basis="bound",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the loop's own lines sleep for a visible part of the step."""
    scenario = given(diagnosis.scenario)
    most = gain(scenario, Change(idle=1 - scenario.resting))
    share = 1 - 1 / most
    if share < ASLEEP_SHARE:
        return None
    place = _place(diagnosis)
    proposal = replace(ASK_AHEAD.at(place), factor=(1.0, most, most), most=most)
    evidence = [Evidence("share of the step asleep in lines of the loop", "asleep_share", share, STACKS)]
    return Finding(ID, "input.wait", evidence, [proposal], place)


def _place(diagnosis: Diagnosis) -> Location | None:
    """The function that the loop called most often where it slept."""
    seen: Counter[Location] = Counter()
    for one in attribute(diagnosis.profile, diagnosis.loop).own:
        stack = one.stack
        if one.own and one.called is not None and not one.logs:
            seen[one.called] += stack.count - (stack.running if stack.running is not None else stack.count)
    return max(seen, key=lambda place: seen[place]) if any(seen.values()) else None


def _case(resting: float, idle: float = 0.03) -> Diagnosis:
    """A model that computes for 10 ms and a loop that sleeps for 30, so much of it in its own lines."""
    sick = case_of(StepCost(0.01, idle), Computing())
    assert sick.scenario is not None
    return replace(sick, scenario=replace(sick.scenario, resting=resting))


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    return (
        Case("an instrument is asked in each step", _case(1.0), "fires", "ask-ahead"),
        Case("the loop sleeps for the model's threads", _case(0.0), "silent"),
        Case("it hardly sleeps", _case(1.0, idle=0.0005), "silent"),
        Case("too few steps", replace(_case(1.0), scenario=None), "abstains"),
    )


FINDING = Entry(ID, "input.wait", examine, needs=(steady_steps,), remedies=(ASK_AHEAD,))
