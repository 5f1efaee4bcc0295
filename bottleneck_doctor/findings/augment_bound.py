"""Random transforms take much of the CPU that batches cost.

## What it means
The data set's transforms (a Compose, a Sequential, or anything shaped like them) change each sample anew:
colours, blur, geometry. They, not decoding, fill the workers.

## Why it costs
Each transform runs once per sample on one core. What comes before a crop works on pixels that the crop throws
away; on an accelerator the same transform takes a batch at once.

## How it is measured
The calls of the transforms' classes are timed on the thread's CPU clock, in every fourth fetch that is looked
at. Plain functions are not seen, and modules only in workers.

## Thresholds
0.3 of a batch's CPU, and removing it would gain 3 % by replay.

## When this advice is wrong
Samples that come out the same every time need no transform at all in training: prepare them once. Per-batch
random numbers, as some libraries draw them on the accelerator, augment less than per-sample ones. Another
order is advised only where one of the transforms crops or resizes, and others than conversions take the time.

## Prediction
Reordered: from nothing, over half of the transforms' time (ours), to all of it, since the areas before and
after are not known. On the accelerator: all of their time, if it has time for them.

## References
torchvision.transforms.v2, "Performance considerations"; kornia.augmentation; albumentations, benchmarks.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.inputs import making_of
from ..analyse.predict import WORTH
from ..model.code import Location
from ..model.diagnosis import (
    Abstention,
    BatchCost,
    Change,
    Diagnosis,
    Finding,
    Inputs,
    Proposal,
    Scenario,
    StepCost,
)
from ..model.fetches import Making, Repeats
from ..model.report import Evidence, Fix
from .parts.advice import EQUAL_SHARE, held_up, place_of, repeats_of, spread, wait_evidence
from .parts.entry import Case, Entry, dataloader_loop, given, patient
from .parts.lines import line_evidence

ID = "augment-bound"
TRANSFORM_SHARE = 0.3  # of a batch's CPU [catalogue F07]
NAMED = 3  # transforms that a report names [catalogue F07]
LISTED = 6  # transforms in the snippet
HALF = 0.5  # of their time likely goes when what shrinks a sample comes first (ours)
COVERED = 0.95  # of the CPU may be a fetch's, as clocks of two kinds go (ours)

SHRINKS = re.compile(r"crop|resize|thumbnail|scale(?!d)|downsample", re.I)
CONVERTS = re.compile(r"totensor|toimage|pilto|topil|todtype|normali[sz]e|convert|compose|sequential", re.I)
ON_BATCH = """\
augment = v2.Compose([v2.RandomHorizontalFlip(), v2.ColorJitter(...), v2.ToDtype(torch.float32, scale=True)])
x = augment(x.to("cuda", non_blocking=True))          # in the loop, on the whole batch"""
BATCHED = Proposal(
    id="aug-gpu-batch",
    title="transform whole batches on the accelerator",
    fix=Fix("take the transforms out of the data set and apply them to the batch", ON_BATCH),
    effort="hours",
    risk="one draw for the whole batch in some libraries; the accelerator must have time for it",
    basis="bound",
)
REORDER = Proposal(
    id="aug-reorder",
    title="transform fewer pixels: crop and resize before colours and blur",
    fix=Fix(
        "put what makes a sample smaller first",
        "Compose([RandomResizedCrop(...), ColorJitter(...)])   # smaller first",
    ),
    risk="blur and noise see the edge of the crop; what can be saved depends on the sizes",
    basis="bound",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when transforms that give something new each time take much of a batch's CPU."""
    scenario, inputs = given(diagnosis.scenario), diagnosis.inputs
    if not held_up(diagnosis):
        return None
    transforms = making_of(diagnosis.profile, diagnosis.loader).transforms
    whole = min(sum(transforms.values()), COVERED * inputs.cpu)
    repeats = repeats_of(diagnosis)
    fixed = repeats is not None and repeats.compared and repeats.equal >= EQUAL_SHARE * repeats.compared
    if whole < TRANSFORM_SHARE * inputs.cpu or fixed:
        return None
    share = min(1.0, whole / inputs.fetching)
    if gain(scenario, Change(cpu=1 - share)) < WORTH:
        return None
    evidence = [
        Evidence("share of a batch's CPU that transforms take", "transform_share", whole / inputs.cpu,
                 "hooks on transforms"),
        *(Evidence(f"CPU time a batch in {name}", "transform_cpu_s", spent, "hooks on transforms")
          for name, spent in list(transforms.items())[:NAMED]),
        *line_evidence(diagnosis),
        *wait_evidence(diagnosis),
    ]  # fmt: skip
    place = place_of(diagnosis)
    proposals = _reordered(scenario, share, transforms, place)
    if diagnosis.host.accelerated:
        half, gone = Change(cpu=1 - HALF * share), Change(cpu=1 - share)
        proposals.insert(0, replace(BATCHED.at(place), factor=spread(scenario, half, gone, gone)))
    return Finding(ID, "input.preprocess", evidence, proposals, place)


def _reordered(
    scenario: Scenario, share: float, transforms: dict[str, float], place: Location | None
) -> list[Proposal]:
    """What makes samples smaller comes first, where there is such a transform and one that can wait."""
    smaller = [name for name in transforms if SHRINKS.search(name)]
    others = [name for name in transforms if not SHRINKS.search(name) and not CONVERTS.search(name)]
    whole = sum(transforms.values())
    part = share * sum(transforms[name] for name in others) / whole if whole > 0 else 0.0
    if not smaller or gain(scenario, Change(cpu=1 - part)) < WORTH:
        return []
    names = ", ".join(f"{name}(...)" for name in [*smaller, *others][:LISTED])
    factor = spread(scenario, Change(), Change(cpu=1 - HALF * part), Change(cpu=1 - part))
    snippet = f"Compose([{names}])   # smaller first"
    return [replace(REORDER.at(place, snippet), factor=factor)]


def _case(
    colour_s: float,
    equal: int = 0,
    accelerated: bool = False,
    own_s: float = 0.002,
    name: str = "ColorJitter",
) -> Diagnosis:
    """Two workers, 20 ms of CPU a batch, so much of it in one transform; half of 64 samples were compared."""
    base = patient(BatchCost(0.02), StepCost(0.0, own_s), workers=2)
    makings = [Making("1:1", 400, transforms={name: colour_s, "RandomCrop": 0.0004})]
    facts = replace(base.profile, makings=makings, repeats=[Repeats("1:1", 64, 32, equal, 6144.0)])
    return replace(base, profile=facts, host=replace(base.host, accelerated=accelerated))


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say; built on demand, since each is replayed."""
    return (
        Case("colours before the crop", _case(0.015), "fires", "aug-reorder"),
        Case("the same beside an accelerator", _case(0.015, accelerated=True), "fires", "aug-gpu-batch"),
        Case("it is conversions", _case(0.015, name="ToTensor"), "fires"),
        Case("samples come out the same", _case(0.015, equal=32), "silent"),
        Case("decoding dominates", _case(0.003), "silent"),
        Case("the workers keep up", _case(0.015, own_s=0.03), "silent"),
        Case("no fetch was timed", replace(_case(0.015), inputs=Inputs()), "abstains"),
    )


FINDING = Entry(ID, "input.preprocess", examine, needs=(dataloader_loop,), remedies=(REORDER, BATCHED))
