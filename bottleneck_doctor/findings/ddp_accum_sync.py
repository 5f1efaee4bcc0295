"""Gradients add up over several batches, and are exchanged after each of them.

## What it means
The optimizer steps once in k backward passes, but every pass exchanges its gradients with the other ranks.
Only the exchange of the last pass is needed: sums of sums are the same.

## Why it costs
k - 1 of k exchanges are wasted: waiting for them, packing gradients into buckets, and copying them back.

## How it is measured
Backward passes and optimizer steps are counted in steps that were looked at; DistributedDataParallel itself
says at each pass whether it exchanges. What the thread sleeps after its own gradients are finished is timed,
and its CPU from there on.

## Thresholds
At least 1.5 passes for one optimizer step (ours: one pass is no accumulation), exchanges at least 1.5 times
as many as the optimizer's steps (ours), and a gain of 3 % by replay. Passes that the optimizer calls for
itself (closures) need their exchange, and several wrapped models share the passes among them.

## When this advice is wrong
The forward pass must stand inside `no_sync()`, too, or the pass exchanges all the same. Gradients that pile
up locally take no more memory; but `find_unused_parameters` and static graphs have rules of their own.

## Prediction
Replay with one exchange per optimizer step, its copying included. What an exchange takes from the cores while
the pass still computes is not seen, so that the likely value is a cautious one. `bigger-batch`, where memory
holds the batches of an optimizer step at once, also calls operators once for all of them.

## References
torch.nn.parallel.DistributedDataParallel.no_sync; PyTorch Performance Tuning Guide, "Skip unnecessary all-
reduce if training with DistributedDataParallel and gradient accumulation".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.predict import WORTH
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal, StepCost
from ..model.loops import Passes
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.computing import WHOLE, as_one
from .parts.entry import Case, Entry
from .parts.ranks import (
    MODEL,
    PASSES,
    TIMED,
    count_of,
    exchange_evidence,
    line_of,
    mean_of,
    pair,
    passes_of,
    wrapped,
)

ID = "ddp-accum-sync"
ACCUMULATES = 1.5  # passes per optimizer step, and exchanges per needed one (ours)
CLOSURES = 0.5  # of the passes called by an optimizer: it needs each of them (ours)

SNIPPET = """\
for place, (x, y) in enumerate(loader):
    last = (place + 1) % {k} == 0
    with contextlib.nullcontext() if last else model.no_sync():
        (loss_fn(model(x), y) / {k}).backward()        # forward pass inside the context, too
    if last:
        optimizer.step()
        optimizer.zero_grad()"""

NO_SYNC = Proposal(
    id="ddp-no-sync",
    title="exchange gradients only when the optimizer is about to step",
    fix=Fix("let gradients add up locally with no_sync()", SNIPPET.format(k=4)),
    apply="hook~",
    risk="sums are added in another order: results may differ in the last digits",
    treatments=(Treatment("no_sync", {"passes": 4}),),
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when gradients are exchanged more often than the optimizer steps."""
    shared, local = passes_of(diagnosis, True), passes_of(diagnosis, False)
    if wrapped(diagnosis) is None or shared is None:
        return None  # nothing is wrapped, or nothing exchanged that a pass waits for
    if diagnosis.scenario is None:
        return Abstention(ID, "steps of a training loop")
    if not shared.per_step:
        return Abstention(ID, "steps of an optimizer")
    every = shared.per_step / count_of(diagnosis)
    part = shared.count / (shared.count + (local.count if local is not None else 0))
    if every < ACCUMULATES or every * part < ACCUMULATES or shared.in_optimizer > CLOSURES * shared.count:
        return None
    change = _seldom(diagnosis, shared, 1 / (every * part))
    if gain(diagnosis.scenario, change) < WORTH:
        return None
    evidence = [
        Evidence("backward passes per optimizer step", "passes_per_step", every, "hooks on both"),
        Evidence("share of them that exchange gradients", "exchanged_share", part, TIMED),
        Evidence("time of such a pass before its exchange is waited for", "pass_s", shared.local_s, TIMED),
        *([Evidence("time of a pass without", "local_pass_s", local.local_s, TIMED)] if local else []),
        *exchange_evidence(diagnosis),
    ]
    place, count = line_of(diagnosis), round(every)
    proposal = replace(
        NO_SYNC.at(place, SNIPPET.format(k=count)),
        title=f"exchange gradients once in {count} passes, when the optimizer is about to step",
        change=change,
        treatments=(Treatment("no_sync", {"passes": count}),),
    )
    whole = as_one(diagnosis, diagnosis.scenario, count, change)
    proposals = [proposal] if whole is None else [proposal, whole]
    return Finding(ID, "comm.allreduce", evidence, proposals, place)


def _seldom(diagnosis: Diagnosis, shared: Passes, left: float) -> Change:
    """Exchanges and the copying after them are left in this share."""
    copied = shared.exchange_cpu_s * (1 - left)
    compute = max(mean_of(diagnosis, "compute"), copied, 1e-12)
    return Change(comm=left, compute=1 - copied / compute)


FOUR = replace(PASSES, per_step=4.0)
LOCAL = replace(PASSES, shared=False, count=1200, per_step=4.0, exchange_s=0.0)
SICK = StepCost(0.01, comm=0.009)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    closure = replace(FOUR, in_optimizer=400)
    return (
        Case("four passes, four exchanges", pair(SICK, passes=(FOUR,)), "fires", "ddp-no-sync"),
        Case("four passes, one exchange", pair(SICK, passes=(replace(FOUR), LOCAL)), "silent"),
        Case("every pass is followed by a step", pair(SICK), "silent"),
        Case("an optimizer with a closure", pair(SICK, passes=(closure,)), "silent"),
        Case("the exchange costs nothing", pair(StepCost(0.05, comm=1e-4), passes=(FOUR,)), "silent"),
        Case("nothing is wrapped", pair(SICK, model=None, passes=()), "silent"),
        Case("no optimizer", pair(SICK, model=MODEL, passes=(replace(FOUR, per_step=0.0),)), "abstains"),
    )


FINDING = Entry(ID, "comm.allreduce", examine, remedies=(NO_SYNC, WHOLE))
