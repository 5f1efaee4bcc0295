"""Each step takes longer than the one before: something grows.

## What it means
The step time rises along a straight line, all through the steady part of the run.

## Why it costs
Little at first and more each hour: a list that every step appends to and searches, a history of losses that
keeps whole graphs alive, a cache without a bound, a queue or a file that is read from its beginning. A day's
training ends many times slower than it began.

## How it is measured
A line through the mean times of blocks of steps, each without its slowest ones: the median of the slopes
between all pairs of blocks. The CPU time of the loop's thread is looked at first, which others on the cores
do not disturb, then the wall time. The same for every part of the step says which one grows.

## Thresholds
The line's end lies 20 % above its beginning and clearly outside of the noise, and in 85 % of the pairs the
later block is the slower one (ours). A change of level is no drift: it makes phases.

## When this advice is wrong
Sequences or graphs that grow on purpose (a curriculum, progressive resizing), a machine that slowly heats up
or fills with other work: look at which part grows first.

## Prediction
A range by replay: from nothing gained to the step as it was at the beginning, for the length that was seen. A
longer run gains more, since the line goes on.

## References
PyTorch FAQ, "My model reports cuda runtime error: out of memory": do not accumulate history across the
training loop; `collections.deque` with `maxlen`.
"""

from __future__ import annotations

from dataclasses import replace

from ..model.derived import Drift
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Proposal, StepCost
from ..model.report import Evidence, Fix
from .parts.advice import spread
from .parts.entry import Case, Entry, given, patient, steady_steps

ID = "step-time-drift"
LINE = "line through the step times"
NAMES = {
    "wait": "data wait", "compute": "forward pass and the rest", "backward": "backward pass",
    "optimizer": "optimizer", "checkpoint": "checkpoints", "logging": "logging",
    "collect": "garbage collection", "copy": "transfer",
}  # fmt: skip
CAUSES = {
    "wait": "input.preprocess", "logging": "host.logging", "checkpoint": "host.checkpoint",
    "collect": "host.gc",
}  # fmt: skip
BOUNDED = """\
history = collections.deque(maxlen=1000)     # before: history = [], and every step searched all of it
losses.append(loss.item())                   # before: losses.append(loss), with its whole graph"""
BOUND = Proposal(
    id="bound-what-grows",
    title="keep what each step adds to and searches from growing",
    fix=Fix("find what grows with the number of steps", BOUNDED),
    effort="hours",
    risk="whatever reads the old entries no longer finds them",
    basis="amdahl",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the steady step grows along a line."""
    drift = diagnosis.drift
    if drift is None:
        return None
    part = NAMES[drift.part]
    known = (
        ("step where the steady part begins", "drift_first_s", drift.first_s),
        (f"step as it was {drift.steps} steps later", "drift_last_s", drift.last_s),
        (f"what grows most: {part}, at the beginning", "drift_part_first_s", drift.part_first_s),
        (f"{part}, at the end", "drift_part_last_s", drift.part_last_s),
    )
    evidence = [Evidence(*one, LINE) for one in known]
    kept = _kept(drift)
    proposal = replace(
        BOUND.at(None, text=f"find what grows with the number of steps ({part})"),
        factor=spread(given(diagnosis.scenario), Change(), kept, kept),
    )
    return Finding(ID, CAUSES.get(drift.part, "host.python"), evidence, [proposal])


def _kept(drift: Drift) -> Change:
    """The part that grows, had it stayed as it was; the loop's own parts are one in the replay."""
    left = drift.left
    own = Change(compute=left, python=left, launch=left, idle=left)
    by_part = {
        "wait": Change(cpu=left, collate=left, wait=left, storage=left, network=left),
        "logging": Change(logging=left),
        "checkpoint": Change(checkpoint=left),
        "collect": Change(collect=left),
    }
    return by_part.get(drift.part, own)


GROWING = Drift(0.01, 0.03, "compute", 0.01, 0.03, 0.5, 400)


def _case(drift: Drift | None) -> Diagnosis:
    return replace(patient(BatchCost(1e-4), StepCost(0.02)), drift=drift)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    waiting = replace(patient(BatchCost(0.02), StepCost(0.002)), drift=replace(GROWING, part="wait"))
    return (
        Case("the step takes three times as long at the end", _case(GROWING), "fires", "bound-what-grows"),
        Case("the data set gets slower and slower", waiting, "fires", "bound-what-grows"),
        Case("steps as long as ever", _case(None), "silent"),
        Case("no step was seen", replace(_case(GROWING), scenario=None, steps=[]), "abstains"),
    )


FINDING = Entry(ID, "host.python", examine, needs=(steady_steps,), remedies=(BOUND,))
