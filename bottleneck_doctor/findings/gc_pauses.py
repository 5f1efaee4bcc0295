"""Python's garbage collector stops the training loop to walk over a large heap.

## What it means
A full collection visits every container object that lives: a data set of a million small objects, again and
again.

## Why it costs
A full collection of a million objects takes 200 to 350 ms (measured), and the loop's thread waits for it.
Where several ranks train together, each waits for the one that collects.

## How it is measured
`gc.callbacks` in the training process: every collection that takes 0.2 ms or more, in the loop's own
thread, the full ones apart from those that visit young objects only.

## Thresholds
More than 1 % of the steady step (ours). A rare long pause costs less on average and is not said.

## When this advice is wrong
If each step leaves much cyclic garbage, young collections do useful work and freezing the old heap does not
stop them. Collections in worker processes are part of what a batch costs, and not counted here.

## Prediction
Replay with a twentieth of the full collections' time after a freeze (measured: from 200 to 350 ms each to
nothing) and all of the young ones', which a freeze does not spare, and with a tenth of all when collecting at
chosen steps (an assumption: the interval is yours to choose).

## References
gc, "freeze" and "set_threshold"; PyTorch and Meta on manual collection in distributed training
(torchtitan).
"""

from __future__ import annotations

from dataclasses import replace

from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Proposal, StepCost
from ..model.instruments import Operation
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.advice import operations_of, step_share
from .parts.entry import Case, Entry, loader_loop, patient

ID = "gc-pauses"
SHARE = 0.01  # of the step [catalogue F18]
FROZEN = 0.05  # of full collections' time is left (ours; they took no time at all [catalogue F18, measured])
SPACED = 0.1  # of the collections are left (assumed; the user chooses)
EVERY = 1000  # steps (ours; the user chooses)
HOOK = "gc.callbacks"
FULL = ("full",)
ALL = ("full", "young")

FREEZE = Proposal(
    id="gc-freeze",
    title="take what lives forever out of the collector's sight",
    fix=Fix(
        "freeze the heap once data set and model are built",
        "import gc; gc.collect(); gc.freeze()     # after data set and model are built, before the loop",
    ),
    apply="hook",
    risk="objects built before the freeze are never collected, if they form cycles",
    treatments=(Treatment("collector"),),
)
SPACE = Proposal(
    id="gc-interval",
    title="collect at chosen steps only",
    fix=Fix(
        "switch automatic collection off, and collect now and then",
        "gc.disable()                                 # before the loop\n"
        f"if step % {EVERY} == 0: gc.collect(1)           # in it; on all ranks at the same step",
    ),
    change=Change(collect=SPACED),
    apply="hook",
    risk="memory grows between two collections where steps leave cycles behind",
    treatments=(Treatment("collector", {"every": EVERY}),),
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when collections take a noticeable part of the steady step."""
    share = step_share(diagnosis, "collect")
    if share <= SHARE:
        return None
    pauses = operations_of(diagnosis, "collection")
    total_s, full_s = (sum(one.total_s for one in pauses if one.name in names) for names in (ALL, FULL))
    full = full_s / total_s if total_s > 0 else 1.0
    evidence = [Evidence("share of the step spent collecting garbage", "collect_share", share, HOOK)]
    if pauses:
        count, longest = sum(one.count for one in pauses), max(one.max_s for one in pauses)
        evidence += [
            Evidence("collections of 0.2 ms and more, whole run", "collections", float(count), HOOK),
            Evidence("the longest of them", "collection_max_s", longest, HOOK),
            Evidence("share of their time in full ones, which visit every object", "full_share", full, HOOK),
        ]
    place = diagnosis.loader.location if diagnosis.loader is not None else None
    freeze = replace(FREEZE.at(place), change=Change(collect=1 - full * (1 - FROZEN)))
    return Finding(ID, "host.gc", evidence, [freeze, SPACE.at(place)], place)


PAUSES = Operation("collection", 1, 0, "full", 8, 1.6, 1.6, 0.25)
YOUNG = replace(PAUSES, name="young", count=800, max_s=0.003)
SICK = StepCost(0.01, collect=0.004)


def _case(*pauses: Operation, cost: StepCost = SICK) -> Diagnosis:
    return patient(BatchCost(1e-4), cost, operations=pauses)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    brief = StepCost(0.01, collect=5e-5)
    return (
        Case("full collections of a large heap", _case(PAUSES), "fires", "gc-freeze"),
        Case("young collections of much cyclic garbage", _case(YOUNG), "fires", "gc-interval"),
        Case("a short collection now and then", _case(cost=brief), "silent"),
        Case("no loop was seen", replace(_case(), loop=None), "abstains"),
    )


FINDING = Entry(ID, "host.gc", examine, needs=(loader_loop,), remedies=(FREEZE, SPACE))
