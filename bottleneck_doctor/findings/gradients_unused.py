"""The backward pass computes gradients that no optimizer uses.

## What it means
Something in the forward pass is not trained, such as a teacher, a reward model or a frozen encoder, but runs
with gradients switched on. What it computes is kept, and the backward pass goes through all of it. Or it is
trained by another loss, as a generator in the discriminator's step, and what this one gives it is zeroed.

## Why it costs
A backward pass takes about twice as long as the forward pass, and activations stay in memory until then.

## How it is measured
One of the first graphs behind a loss is walked through: products and convolutions whose gradients reach no
tensor of any optimizer are counted, by their multiplications. So are, where several optimizers step, those of
eight passes that reach nothing but tensors whose `grad` is gone before their optimizer steps. The hook on the
backward pass tells its time.

## Thresholds
A tenth of the multiplications, and what they take of the backward pass is worth 5 % of the step (ours).

## When this advice is wrong
Where an optimizer is made later, or weights are updated without one. Gradients that are asked for at inputs,
as in an attack, are wanted although nothing is trained: without an optimizer nothing is said. Gradients that
`zero_grad(set_to_none=False)` fills with zeros are not seen to be dropped.

## Prediction
By replay: that share of the backward pass, half to all of it, likely all (ours). Kept outputs spare the
forward pass, too; that they may be kept is not known, so that is a bound. A generator in three of four steps:
x1.7 for x1.5, of the whole run.

## References
PyTorch documentation, "Autograd mechanics": locally disabling gradient computation; Hinton et al. 2015,
"Distilling the Knowledge in a Neural Network".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.predict import WORTH
from ..analyse.steps import mean_in
from ..model.computing import Computing, ScriptSettings
from ..model.diagnosis import Abstention, Diagnosis, Finding, Proposal, Scenario, StepCost
from ..model.report import Evidence, Fix
from .parts.advice import spread
from .parts.computing import case_of, own_s, spared, switches
from .parts.entry import Case, Entry, cpu_loop, given

ID = "gradients-unused"
SHARE = 0.1  # of the multiplications (ours)
SPARED = (0.5, 1.0, 1.0)  # of their part of the backward pass: low, likely, high (ours)

NO_GRAD = Proposal(
    id="no-grad",
    title="compute without gradients what is not trained",
    fix=Fix(
        "where it is called, in the loop or in a module's forward",
        "with torch.no_grad():          # keeps nothing for a backward pass\n    targets = teacher(x)",
    ),
    risk="what is computed within is not trained, whatever an optimizer made later holds",
)
DETACH = "compute without gradients what this loss does not train"
FAKE = "with torch.no_grad():          # or fake = generator(noise).detach()\n    fake = generator(noise)"
KEEP_OUTPUTS = Proposal(
    id="keep-outputs",
    title="compute once for each sample what is not trained",
    fix=Fix(
        "before training, with the samples as they are; the data set gives sample and output together",
        "with torch.no_grad():\n    targets = torch.cat([teacher(x) for x, _ in loader_in_order])",
    ),
    effort="hours",
    risk="where samples are augmented, outputs no longer belong to what is shown",
    basis="bound",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when much of the backward pass is for nothing."""
    scenario, known = given(diagnosis.scenario), switches(diagnosis)
    if known is None or known.unused_share is None:
        return Abstention(ID, "a graph of the training, and the optimizers that it has")
    dropped = known.dropped_share or 0.0
    share, backward_s = max(known.unused_share, dropped), mean_in(diagnosis.steps, "backward")
    factor = _gains(scenario, share * backward_s)
    if share < SHARE or factor[1] < WORTH:
        return None
    most = gain(scenario, spared(scenario, share * own_s(scenario)))
    text = "share of the multiplications whose gradients no optimizer uses"
    if share == dropped:
        text = "share of the multiplications whose gradients are zeroed before their optimizer steps"
    evidence = [
        Evidence(text, "unused_gradient_share", share, "graph of the loss"),
        Evidence("time per step in the backward pass", "backward_s", backward_s, "hook on it"),
    ]  # fmt: skip
    if share == dropped:
        proposals = [replace(NO_GRAD.at(None, FAKE), title=DETACH, factor=factor)]
    else:
        proposals = [
            replace(NO_GRAD, factor=factor),
            replace(KEEP_OUTPUTS, factor=(1.0, 1.0, most), most=most),
        ]
    return Finding(ID, "model.compute", evidence, proposals)


def _gains(scenario: Scenario, seconds: float) -> tuple[float, float, float]:
    low, likely, high = (spared(scenario, part * seconds) for part in SPARED)
    return spread(scenario, low, likely, high)


def _case(share: float | None, backward: float = 0.6, dropped: float | None = None) -> Diagnosis:
    """A model that computes for 20 ms, so much of it in the backward pass."""
    cost = StepCost(0.02)
    sick = case_of(cost, Computing(switches=[ScriptSettings(1, unused_share=share, dropped_share=dropped)]))
    return replace(sick, steps=[replace(one, backward=backward * one.wall) for one in sick.steps])


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    return (
        Case("a large teacher runs with gradients", _case(0.9), "fires", "no-grad"),
        Case("the teacher is small", _case(0.05), "silent"),
        Case("the backward pass is short", _case(0.9, 0.02), "silent"),
        Case("all that is computed is trained", _case(0.0), "silent"),
        Case("a generator in its discriminator's step", _case(0.0, dropped=0.4), "fires", "no-grad"),
        Case("a small one", _case(0.0, dropped=0.05), "silent"),
        Case("no optimizer was seen", _case(None), "abstains"),
    )


FINDING = Entry(ID, "model.compute", examine, needs=(cpu_loop,), remedies=(NO_GRAD, KEEP_OUTPUTS))
