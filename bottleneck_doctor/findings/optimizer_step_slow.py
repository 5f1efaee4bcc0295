"""The optimizer updates its tensors one by one: a visible part of the step.

## What it means
On the CPU torch's optimizers loop over the parameters in Python, several small operators for each, although
one fused call does the same.

## Why it costs
Each operator has its price, and each reads and writes the whole tensor: Adam passes over its memory about ten
times where once would do.

## How it is measured
Hooks before and after `step`; backward passes inside are taken off. The optimizer's own groups say whether it
is fused, and of how many tensors it is made.

## Thresholds
More than 0.1 of the step [catalogue F42], a class of torch's own that is neither fused nor handed a closure,
and a gain of 3 % [catalogue 2.3].

## When this advice is wrong
Fused updates round differently in the last digits. Tensor subclasses, sparse gradients and some options are
refused when the optimizer is built. An optimizer that calls a closure runs the model inside of `step`.

## Prediction
A range by replay of what `fused=True` brought (measured): Adam and AdamW 5.8 to 6.7 for tensors of 256
numbers, 3.7 to 4.1 for larger ones; SGD with momentum 4.4 and 1.7 to 2.0; Adagrad 3.9 and 2.7 to 3.4;
cautiously half of the gain. `foreach=True` elsewhere: 1.5 to 2.0 for small tensors; it loses with large
ones, so it is not offered there.

## References
torch.optim, "foreach, fused and for-loop implementations"; torch.optim.AdamW, argument `fused`.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.predict import WORTH
from ..model.computing import Computing, Optimizer
from ..model.diagnosis import Abstention, Diagnosis, Finding, Proposal, Scenario, StepCost
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.advice import data_wait_evidence, spread, step_share
from .parts.computing import Factor, built_at, case_of, optimizer_s, optimizers, spared
from .parts.entry import Case, Entry, cpu_loop, given

ID = "optimizer-step-slow"
OPTIMIZER_SHARE = 0.1  # of the step [catalogue F42]
SMALL = 2048  # numbers in a mean tensor, below which calls cost more than memory [catalogue F42]
# how many times as fast: for small tensors, for large ones [catalogue F42, measured]
FUSED = {"Adam": (6.0, 3.9), "AdamW": (6.0, 3.9), "SGD": (2.0, 1.07), "Adagrad": (3.9, 2.7)}
MOMENTUM = (4.0, 1.8)  # of SGD [catalogue F42, measured]
FOREACH = (1.0, 1.6, 2.0)  # for small tensors [catalogue F42, measured]
HOPEFUL = 1.2  # times that, at best (ours)
SOURCE = "the optimizer's groups"

ONE_CALL = Proposal(
    id="optimizer-fused",
    title="let the optimizer update all tensors in one call",
    fix=Fix("where the optimizer is built", "torch.optim.AdamW(..., fused=True)"),
    apply="hook~",
    risk="rounds differently in the last digits; refuses some options and tensor subclasses",
    basis="bound",
    treatments=(Treatment("optimizer", {"way": "fused"}),),
)
FEW_CALLS = replace(
    ONE_CALL,
    id="optimizer-foreach",
    title="let the optimizer update all tensors in few calls",
    fix=Fix("where the optimizer is built", "torch.optim.RMSprop(..., foreach=True)"),
    treatments=(Treatment("optimizer", {"way": "foreach"}),),
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when a loop over tensors takes a visible part of the step."""
    scenario, share = given(diagnosis.scenario), step_share(diagnosis, "optimizer")
    if share < OPTIMIZER_SHARE:
        return None
    known = optimizers(diagnosis)
    if not known:
        return Abstention(ID, "the optimizer's class and settings")
    if len({one.name for one in known}) > 1 and any(one.closure for one in known):
        return Abstention(ID, "which of several optimizers takes the time")
    slow = [one for one in known if _loops(one)]
    part = sum(one.elements for one in slow) / max(1, sum(one.elements for one in known))
    seconds = part * optimizer_s(diagnosis, scenario)
    proposal = _proposal(scenario, slow[0], seconds) if slow else None
    if proposal is None or given(proposal.factor)[1] < WORTH:
        return None
    evidence = [
        Evidence("share of the step in the optimizer", "optimizer_share", share, "hooks around step"),
        Evidence("tensors that it updates one by one", "optimizer_tensors", float(slow[0].tensors), SOURCE),
        Evidence("numbers in them", "optimizer_elements", float(slow[0].elements), SOURCE),
        data_wait_evidence(diagnosis),
    ]
    return Finding(ID, "host.launch", evidence, [proposal], built_at(slow[0]))


def _loops(one: Optimizer) -> bool:
    plain = one.library == "torch" and one.device == "cpu" and not one.closure
    return plain and not one.fused and not one.foreach


def _is_small(one: Optimizer) -> bool:
    return one.elements < SMALL * max(one.tensors, 1)


def _rate(one: Optimizer) -> Factor | None:
    """How many times as fast the fused step is: cautious, likely, hopeful."""
    if not one.fusible or one.name not in FUSED:
        return None
    rates = MOMENTUM if one.name == "SGD" and one.momentum else FUSED[one.name]
    likely = rates[0] if _is_small(one) else rates[1]
    return (1 + likely) / 2, likely, HOPEFUL * likely


def _proposal(scenario: Scenario, one: Optimizer, seconds: float) -> Proposal | None:
    fused = _rate(one)
    rate = fused or (FOREACH if _is_small(one) else None)
    if rate is None:
        return None
    way, word = (ONE_CALL, "fused") if fused else (FEW_CALLS, "foreach")
    return replace(
        way.at(built_at(one), f"torch.optim.{one.name}(..., {word}=True)"),
        title=way.title.replace("the optimizer", one.name),
        factor=spread(scenario, *(spared(scenario, seconds * (1 - 1 / times)) for times in rate)),
        most=gain(scenario, spared(scenario, seconds)),
    )


ADAM = Optimizer(1, "AdamW", "torch", 200, 800_000, fusible=True, device="cpu", file="train.py", line=9)
COST = StepCost(0.006, launch=0.004)


def _case(one: Optimizer | None, share: float = 0.4, cost: StepCost = COST) -> Diagnosis:
    """A step of 10 ms, of which the optimizer takes a share."""
    sick = case_of(cost, Computing(optimizers=[one] if one else []))
    steps = [
        replace(step, optimizer=share * step.wall, compute=step.compute - share * step.wall)
        for step in sick.steps
    ]
    return replace(sick, steps=steps)


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    return (
        Case("AdamW loops over 200 tensors", _case(ADAM), "fires", "optimizer-fused"),
        Case("RMSprop has no fused form, and small tensors",
             _case(replace(ADAM, name="RMSprop", fusible=False, elements=20_000)), "fires",
             "optimizer-foreach"),
        Case("RMSprop with large tensors", _case(replace(ADAM, name="RMSprop", fusible=False)), "silent"),
        Case("plain SGD with large tensors", _case(replace(ADAM, name="SGD")), "silent"),
        Case("it is fused already", _case(replace(ADAM, fused=True)), "silent"),
        Case("a closure runs the model inside of it", _case(replace(ADAM, closure=True)), "silent"),
        Case("it takes a twentieth of the step", _case(ADAM, 0.05), "silent"),
        Case("nothing is known of the optimizer", _case(None), "abstains"),
    )  # fmt: skip


FINDING = Entry(ID, "host.launch", examine, needs=(cpu_loop,), remedies=(ONE_CALL, FEW_CALLS))
