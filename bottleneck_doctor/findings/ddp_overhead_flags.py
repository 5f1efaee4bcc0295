"""Options of DistributedDataParallel cost time without need.

## What it means
Gradients are copied into buckets and back although they could live there; the graph is searched in each step
for parameters that are never unused; or the buckets are so few, or so many, that nothing overlaps.

## Why it costs
Copying takes the training thread's CPU, at the end of the backward pass, where nothing else is left to do.
The search walks the whole graph before each backward pass and adds an exchange of its own.

## How it is measured
The constructor's arguments as the model keeps them; buckets and unused parameters by the model's own books;
the CPU that the training thread uses in a backward pass after its own gradients are finished.

## Thresholds
Copying above 2 % of the step [catalogue F53]. For buckets: exchanges above 10 % of the step [TensorBoard
plugin], gradients of more than one default bucket (25 MiB) in fewer than 3 buckets, or more than 50 buckets
[catalogue F53].

## When this advice is wrong
A model with branches needs the search, and may use all parameters in the steps that were looked at. Gradients
that live in buckets cannot be detached or replaced by others.

## Prediction
The copying that was measured is the lower end. As much again goes into the buckets, which is not timed by
itself: the likely value has both (measured: x1.14 on eight layers of 512, where both were 4 % of the step).
The search and other sizes of buckets are named without a promise: gains and losses were measured for both.

## References
torch.nn.parallel.DistributedDataParallel: gradient_as_bucket_view, find_unused_parameters, static_graph,
bucket_cap_mb; Li et al., VLDB 2020, section 4.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal, StepCost
from ..model.loops import Parallel, Passes
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.advice import spread
from .parts.entry import Case, Entry, given
from .parts.ranks import BUILT, MODEL, PASSES, TIMED, line_of, mean_of, pair, passes_of, share_of, wrapped

ID = "ddp-overhead-flags"
COPIES = 0.02  # of the step [catalogue F53]
EXPOSED = 0.1  # of the step, from which the size of buckets is worth a word [TensorBoard plugin]
FEW, MANY = 3, 50  # buckets [catalogue F53]
DEFAULT_BYTES = 25 * 2**20  # of a bucket [torch.nn.parallel.DistributedDataParallel]
BOTH_WAYS = (1.0, 2.0, 3.0)  # times the copying back: there as well, and what it delays (ours)
BOOKS = "the model's own books"

VIEW = Proposal(
    id="ddp-bucket-view",
    title="let gradients live in the buckets that are exchanged",
    fix=Fix("where the model is wrapped", "DistributedDataParallel(model, gradient_as_bucket_view=True)"),
    apply="hook~",
    risk="gradients are views then: detach_() on them fails; use zero_grad()",
    basis="bound",
    treatments=(Treatment("ddp", {"arguments": {"gradient_as_bucket_view": True}}),),
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when an option that could be turned costs something that was measured or is known."""
    model, passes = wrapped(diagnosis), passes_of(diagnosis, True)
    if model is None or diagnosis.scenario is None:
        return None  # nothing is wrapped, or no step was seen
    if passes is None:
        return Abstention(ID, "backward passes that exchange gradients in the training thread")
    copying = passes.exchange_cpu_s / max(diagnosis.step_s, 1e-12)
    copies = model.arguments.get("gradient_as_bucket_view") == "False" and copying > COPIES
    evidence = [*_searching(model), *_buckets(model, share_of(diagnosis, "comm"))]
    if copies:
        evidence.insert(0, Evidence("share of the step that the thread copies gradients back",
                                    "copy_back_share", copying, TIMED))  # fmt: skip
    if not evidence:
        return None
    place = line_of(diagnosis)
    proposals = [_view(diagnosis, passes).at(place)] if copies else []
    return Finding(ID, "comm.allreduce", evidence, proposals, place)


def _searching(model: Parallel) -> list[Evidence]:
    needless = model.arguments.get("find_unused_parameters") == "True" and model.unused_bytes == 0
    text = "find_unused_parameters=True, and bytes of parameters that were unused"
    return [Evidence(text, "unused_bytes", 0.0, BOOKS)] if needless else []


def _buckets(model: Parallel, exposed: float) -> list[Evidence]:
    count = len(model.bucket_bytes or ())
    few = 0 < count < FEW and model.gradient_bytes > DEFAULT_BYTES
    if exposed < EXPOSED or not (few or count > MANY):
        return []
    return [Evidence("buckets in which gradients travel: try others with bucket_cap_mb", "buckets",
                     float(count), BUILT)]  # fmt: skip


def _view(diagnosis: Diagnosis, passes: Passes) -> Proposal:
    scenario = given(diagnosis.scenario)
    part = passes.exchange_cpu_s / max(mean_of(diagnosis, "compute"), 1e-12)
    changes = [Change(compute=max(0.0, 1 - times * part)) for times in BOTH_WAYS]
    return replace(VIEW, factor=spread(scenario, *changes), most=gain(scenario, changes[-1]))


COPYING = replace(PASSES, exchange_cpu_s=0.0015)


def _case(passes: Passes, options: dict[str, str]) -> Diagnosis:
    model = replace(MODEL, arguments={**MODEL.arguments, **options})
    return pair(StepCost(0.012, comm=0.008), model=model, passes=(passes,))


def _one_bucket() -> Diagnosis:
    model = replace(MODEL, gradient_bytes=80_000_000, bucket_bytes=[80_000_000])
    return pair(StepCost(0.05, comm=0.02), model=model)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    viewed = {"gradient_as_bucket_view": "True"}
    return (
        Case("gradients are copied back", _case(COPYING, {}), "fires", "ddp-bucket-view"),
        Case("a needless search", _case(PASSES, {"find_unused_parameters": "True", **viewed}), "fires"),
        Case("one bucket of 80 MB", _one_bucket(), "fires"),
        Case("gradients live in their buckets", _case(COPYING, viewed), "silent"),
        Case("nothing is wrapped", pair(StepCost(0.01), model=None, passes=()), "silent"),
        Case("no exchange was timed", pair(StepCost(0.0, 0.02), passes=()), "abstains"),
    )


FINDING = Entry(ID, "comm.allreduce", examine, remedies=(VIEW,))
