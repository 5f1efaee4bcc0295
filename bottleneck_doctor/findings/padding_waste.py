"""Most places in a batch of sequences are padding, and the model computes on them.

## What it means
Sequences of many lengths are filled up to the longest of their batch, or to a fixed length. What fills them
carries nothing, and goes through the model all the same.

## Why it costs
Layers cost as much for a place that is padding as for a real one; attention pays for the square.

## How it is measured
In sampled batches, before they reach the model: two-dimensional tensors of whole numbers whose rows end, or
begin, with one and the same number that stands nowhere else; of floats three-dimensional ones, whose rows end
or begin with vectors of zeros.

## Thresholds
More than 0.3 of the places are padding [catalogue F48], in at least three sampled batches (ours), and the
model computes for at least a fifth of the step (ours).

## When this advice is wrong
Packed sequences skip the padding: where the profiled step packs them, nothing is said. A compiled model may
want fixed shapes. Batches of equal lengths are drawn in another order, which training may feel.

## Prediction
A range by replay on the computing: from nothing, where the model's cost does not follow the padded length;
over 0.85 of the way to batches with a tenth of padding; to batches without any (ours).

## References
torch.nn.utils.rnn.pack_padded_sequence; Krell et al., "Efficient Sequence Packing without Cross-
contamination".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.predict import WORTH
from ..model.computing import Computing, Padding
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal, StepCost
from ..model.instruments import Operator
from ..model.report import Evidence, Fix
from .parts.advice import spread
from .parts.computing import anatomy_like, case_of, operators
from .parts.entry import Case, Entry, cpu_loop, given

ID = "padding-waste"
PADDED_SHARE = 0.3  # of the places in a batch [catalogue F48]
BATCHES_AT_LEAST = 3  # looked into (ours)
COMPUTE_SHARE = 0.2  # of the step (ours)
BUCKETED = 0.1  # of the places in batches of like lengths that are still padding (ours)
FOLLOWS = 0.85  # of the computing that follows the padded length, likely (ours)
SOURCE = "sampled batches"

BUCKET = Proposal(
    id="bucket-by-cost",
    title="draw batches of sequences of like lengths",
    fix=Fix(
        "where batches are put together",
        "order = sorted(range(len(lengths)), key=lambda i: lengths[i] + rng.uniform(-8, 8))\n"
        "batches = [order[i : i + B] for i in range(0, len(order), B)]; rng.shuffle(batches)\n"
        "loader = DataLoader(dataset, batch_sampler=batches, collate_fn=pad_to_the_longest_of_the_batch)",
    ),
    effort="hours",
    risk="batches are drawn in another order; a compiled model may want fixed shapes",
    basis="bound",
)
PACK = Proposal(
    id="sequence-packing",
    title="pack sequences so that no padding is computed on",
    fix=Fix(
        "where batches are put together",
        "packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)",
    ),
    effort="hours",
    risk="recurrent layers take packed sequences; attention needs a mask between neighbours",
    basis="bound",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when much of what the model computes on is padding."""
    scenario, loader = given(diagnosis.scenario), diagnosis.loader
    known = diagnosis.profile.computing.paddings
    found = next((one for one in known if loader is not None and one.loader == loader.key), None)
    if loader is None or found is None:
        return None
    share = found.padded / max(found.places, 1)
    computing = 1 - 1 / gain(scenario, Change(compute=0))
    if share < PADDED_SHARE or found.batches < BATCHES_AT_LEAST or computing < COMPUTE_SHARE:
        return None
    if not diagnosis.profile.operators:
        return Abstention(ID, "a profiled step: whether the padding is packed away")
    if operators(diagnosis, lambda name: name == "_pack_padded_sequence"):
        return None
    real = 1 - share
    likely = 1 - FOLLOWS * (1 - min(1.0, real / (1 - BUCKETED)))
    factor = spread(scenario, Change(), Change(compute=likely), Change(compute=real))
    if factor[1] < WORTH:
        return None
    evidence = [
        Evidence("share of the places in a batch that are padding", "padding_share", share, SOURCE),
        Evidence("batches that were looked into", "padding_batches", float(found.batches), SOURCE),
        Evidence("share of the step that the model computes", "compute_share", computing, "replay"),
    ]
    proposals = [replace(one.at(loader.location), factor=factor, most=factor[2]) for one in (BUCKET, PACK)]
    return Finding(ID, "model.compute", evidence, proposals)


COST = StepCost(0.02)
TABLE = [Operator("aten::mm", 8.0, 0.015)]


def _case(found: Padding | None, table: list[Operator] = TABLE, cost: StepCost = COST) -> Diagnosis:
    """Sentences under a model that computes for 20 ms."""
    facts = Computing(anatomies=[anatomy_like(cost)], paddings=[found] if found else [])
    return case_of(cost, facts, table)


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    half = Padding("1:1", 20, 100_000, 52_000)
    packed = [*TABLE, Operator("aten::_pack_padded_sequence", 1.0, 1e-4)]
    return (
        Case("half of the places are padding", _case(half), "fires", "bucket-by-cost"),
        Case("a tenth is padding", _case(replace(half, padded=10_000)), "silent"),
        Case("the padding is packed away", _case(half, packed), "silent"),
        Case("no rows of tokens", _case(None), "silent"),
        Case("the model hardly computes", _case(half, cost=StepCost(0.001, 0.02)), "silent"),
        Case("no step was profiled", _case(half, []), "abstains"),
    )


FINDING = Entry(ID, "model.compute", examine, needs=(cpu_loop,), remedies=(BUCKET, PACK))
