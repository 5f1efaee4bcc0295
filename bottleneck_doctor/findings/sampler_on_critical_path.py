"""Choosing which samples come next holds up the training loop.

## What it means
The sampler runs in the training process, between two batches or at the start of an epoch, and takes time.

## Why it costs
No worker can do it: the loop's own thread draws the indices inside `next`, and the model waits. Weighted and
stratified samplers written as Python loops, or ones that look something up for each batch, cost milliseconds.

## How it is measured
A hook on the loader's `_next_index`, on the steps that are looked at closely, and when an epoch's iterator
is built. What an epoch's first draws cost beyond usual ones is its beginning: shuffling, weighing, sorting.

## Thresholds
2 % of the step, or 1 % of the epoch at its beginning (ours). It would gain 3 % by replay.

## When this advice is wrong
Distributed samplers permute anew in every epoch by design. A sampler that must see the last loss (hard
examples, curricula) cannot draw ahead. A loader that is asked for indices by someone else's thread is not in
the loop's way.

## Prediction
Replay with the draws' measured time reduced to that of vectorised ones: 0.13 microseconds an index
(measured).

## References
torch.utils.data, "Data Loading Order and Sampler"; torch.utils.data.WeightedRandomSampler.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.inputs import epoch_draws_s, making_of
from ..analyse.predict import WORTH
from ..model.diagnosis import (
    Abstention,
    BatchCost,
    Change,
    Diagnosis,
    EpochStart,
    Finding,
    Inputs,
    Proposal,
    Scenario,
    StepCost,
)
from ..model.fetches import Making
from ..model.report import Evidence, Fix
from .parts.entry import Case, Entry, dataloader_loop, given, patient

ID = "sampler-on-critical-path"
STEP_SHARE = 0.02  # of the step [catalogue F13]
EPOCH_SHARE = 0.01  # of the epoch [catalogue F13]
INDEX_S = 1.3e-7  # per index drawn by torch's own samplers [catalogue F13, measured]
SOURCE = "hook on the loader's sampler"

DRAWN = """\
class Drawn(torch.utils.data.Sampler):           # one draw for the whole epoch, not one per sample
    def __init__(self, weights): self.weights = weights / weights.sum()
    def __len__(self): return len(self.weights)
    def __iter__(self): return iter(np.random.choice(len(self), len(self), p=self.weights).tolist())"""
DRAW_ONCE = Proposal(
    id="sampler-vectorise",
    title="draw the indices of an epoch in one call",
    fix=Fix("replace the sampler's loop by one draw with NumPy or torch", DRAWN),
    effort="hours",
    risk="the order of samples changes with another source of random numbers",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when drawing indices takes a part of the step, or of the epoch, that is worth having back."""
    loader, scenario = given(diagnosis.loader), given(diagnosis.scenario)
    if loader.kind != "dataloader":
        return None
    making = making_of(diagnosis.profile, loader)
    if making.draw_s is None:
        return Abstention(ID, "timed draws of the loader's sampler")
    start_s = epoch_draws_s(making, diagnosis.loop)
    step_share = making.draw_s / max(diagnosis.step_s, 1e-12)
    epoch_share = (
        start_s / max(scenario.epoch.steps * diagnosis.step_s, 1e-12) if scenario.epoch.steps else 0.0
    )
    if step_share < STEP_SHARE and epoch_share < EPOCH_SHARE:
        return None
    drawn = making.draw_s + (start_s / scenario.epoch.steps if scenario.epoch.steps else 0.0)
    gone = Change(sampling=min(1.0, INDEX_S * diagnosis.inputs.samples / max(drawn, 1e-12)))
    if gain(scenario, gone) < WORTH:
        return None
    each = [
        Evidence("share of the step that drawing indices takes", "draw_share", step_share, SOURCE),
        Evidence("time to draw the indices of a batch", "draw_s", making.draw_s, SOURCE),
    ]
    begin = [
        Evidence("share of the epoch that it begins with, drawing", "epoch_draw_share", epoch_share, SOURCE),
        Evidence("time that each epoch begins with, drawing", "epoch_draws_s", start_s, SOURCE),
    ]
    evidence = begin + each if epoch_share > step_share else each + begin
    evidence.append(Evidence(f"the sampler is a {loader.sampler or 'sampler of its own'}"))
    proposal = replace(DRAW_ONCE.at(loader.location), change=gone)
    return Finding(ID, "input.indexing", evidence, [proposal], loader.location)


def _case(draw_s: float | None, first_s: float = 0.0, step: StepCost = StepCost(0.0, 0.008)) -> Diagnosis:  # noqa: B008
    """A loader with two quick workers, whose indices take so long to draw."""
    scene = Scenario((BatchCost(0.001),), (step,), workers=2, cores=2.0, sampling=draw_s or 0.0,
                     epoch=EpochStart(133, first_s, first_s))  # fmt: skip
    base = patient(BatchCost(0.001), step, workers=2, scenario=scene)
    loop = replace(base.loop, epochs=replace(base.loop.epochs, t=[0.0, 1.0, 2.0])) if base.loop else None
    makings = [Making("1:1", 400, draw_s=draw_s, first_draws_s=[first_s] * 3)]
    return replace(base, loop=loop, profile=replace(base.profile, makings=makings))


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say; built on demand, since each is replayed."""
    return (
        Case("a sampler that looks up for each batch", _case(0.002), "fires", "sampler-vectorise"),
        Case("weights of a million items are drawn at once", _case(1e-5, 0.3), "fires", "sampler-vectorise"),
        Case("torch's own sampler", _case(1.5e-5, 2e-4), "silent"),
        Case("nobody timed the draws", _case(None), "abstains"),
        Case("no fetch was timed", replace(_case(0.002), inputs=Inputs()), "abstains"),
    )


FINDING = Entry(ID, "input.indexing", examine, needs=(dataloader_loop,), remedies=(DRAW_ONCE,))
