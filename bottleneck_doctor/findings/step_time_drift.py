"""The loop's own part of each step takes longer than the one before: something grows.

## What it means
The time that the loop's thread computes per step rises along a straight line, all through the steady part of
the run.

## Why it costs
Little at first and more each hour: a list that every step appends to and searches, a history of losses that
keeps whole graphs alive, a cache without a bound, a queue or a file that is read from its beginning. A day's
training ends many times slower than it began.

## How it is measured
A line through the mean times of blocks of steps, each without its slowest ones: the median of the slopes
between all pairs of blocks. It takes the CPU time of the loop's thread outside of the loader, which other
processes do not disturb; where that was not measured, the wall time without data, checkpoints and logging.

## Thresholds
The line's end lies 20 % above its beginning and clearly outside of the noise, and in 85 % of the pairs the
later block is the slower one (ours). A change of level is no drift: it makes phases.

## When this advice is wrong
Sequences or graphs that grow on purpose (a curriculum, progressive resizing), a machine that slowly heats up
or fills with other work.

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
    evidence = [
        Evidence("loop's own time where the steady part begins", "drift_first_s", drift.first_s, LINE),
        Evidence(f"the same {drift.steps} steps later", "drift_last_s", drift.last_s, LINE),
    ]
    kept = Change(compute=drift.left, python=drift.left, launch=drift.left, idle=drift.left)
    proposal = replace(BOUND, factor=spread(given(diagnosis.scenario), Change(), kept, kept))
    return Finding(ID, "host.python", evidence, [proposal])


GROWING = Drift(0.01, 0.03, 0.5, 400)


def _case(drift: Drift | None) -> Diagnosis:
    return replace(patient(BatchCost(1e-4), StepCost(0.02)), drift=drift)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case("the step takes three times as long at the end", _case(GROWING), "fires", "bound-what-grows"),
        Case("steps as long as ever", _case(None), "silent"),
        Case("no step was seen", replace(_case(GROWING), scenario=None, steps=[]), "abstains"),
    )


FINDING = Entry(ID, "host.python", examine, needs=(steady_steps,), remedies=(BOUND,))
