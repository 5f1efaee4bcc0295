"""How a model computes: small operators, optimizer, padding, attention, gradients, compilation."""

from __future__ import annotations

import re
from dataclasses import replace
from statistics import fmean

from ..analyse.hot_lines import hot_functions
from ..analyse.predict import gain
from ..analyse.shares import ALL_BUT_NOISE, LARGE_PART, MOST, NOTICED
from ..analyse.steps import mean_in
from ..model.diagnosis import Change, Diagnosis, Finding, Proposal, Scenario
from ..model.profile import GradientRows, Optimizer
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .facts import (
    CLOCK,
    PROFILER,
    anatomy,
    built_at,
    computing_cause,
    computing_s,
    computing_share,
    data_wait_evidence,
    device_part_s,
    lighter,
    operators,
    optimizer_s,
    optimizer_share,
    optimizers,
    share_of,
    switches,
    updates_singly,
    updates_slowly,
)
from .lines import STACKS
from .registry import RECORDED, OnCpu, clocked_loop, finding, given, profiled_step, snippet
from .remedies import LARGER, MOSTLY, PARTLY, WHOLLY, Factor, each, left_of, loader_call, priced

# dispatch-bound
DISPATCH_FUSE = Proposal(
    id="fuse-operators",
    title="replace many small operators by one on larger tensors",
    fix=Fix("merge loops over small tensors into calls on large ones", snippet("cpu_compute", "MERGED")),
    effort="hours",
    risk="results may differ in the last digits",
    basis="bound",
)
TIMES = (2, 8)  # the batch: what the remedy promises, and what it brings at most
TWICE = replace(LARGER, title="use larger batches: twice as large, or up to eight times", basis="amdahl")


@finding("host.launch", DISPATCH_FUSE, TWICE, needs=(OnCpu("on a GPU `launch-bound` says it"),))
def dispatch_bound(diagnosis: Diagnosis) -> Finding | None:
    """Fires when calling operators takes a large part of the step."""
    scenario, found = given(diagnosis.scenario), given(anatomy(diagnosis))
    launch = fmean(cost.launch for cost in scenario.costs)
    share = 1 - 1 / gain(scenario, Change(launch=0))
    outside = 1 - min(1.0, optimizer_s(diagnosis, scenario) / max(launch, 1e-12))
    if share < LARGE_PART or outside < MOST:
        return None
    each_s = launch / max(found.operators, 1)
    evidence = [
        Evidence("share of the step that calling operators takes", "launch_share", share, PROFILER),
        Evidence("operators in the profiled step", "operators_per_step", float(found.operators), PROFILER),
        Evidence("time to call one operator", "launch_s", each_s, PROFILER),
    ]
    gone, fused = Change(launch=0.0), each(launch=left_of(outside, PARTLY))
    twice, most = (Change(launch=1 / times, python=1 / times) for times in TIMES)
    loader, larger, body = diagnosis.loader, TWICE, given(diagnosis.loop).body
    users = (one for one in hot_functions(diagnosis.profile) if one.users and one.role == "trainer")
    called = (one for one in users if body is None or one.location.function != body.function)
    where = next((one for one in called if one.own_share >= NOTICED), None)
    place = where.location if where is not None else None
    if where is not None and where.own_share >= MOST:
        text = f"share of the loop's samples in {where.function}"
        evidence.append(Evidence(text, "called_share", where.own_share, STACKS))
    if loader is not None and loader.batch_size:
        larger = TWICE.at(loader.location, loader_call(loader, batch_size=TIMES[0] * loader.batch_size))
    proposals = [
        priced(DISPATCH_FUSE.at(place), scenario, *fused, most=gone),
        priced(larger, scenario, Change(), twice, most),
    ]
    return Finding("dispatch-bound", "host.launch", evidence, proposals, place)


# optimizer-step-slow
SMALL = 2048  # numbers in a mean tensor, below which calls cost more than memory (chosen)
# how many times as fast: for small tensors, for large ones (measured, thread CPU: tensors of 256, 4096
# and a million numbers: Adam 5.8, 3.7, 4.1; AdamW 6.7, 4.1, 4.0; SGD 2.2, 1.3, 1.1; Adagrad 3.9, 2.7, 3.4)
OPTIMIZER_FUSED = {"Adam": (6.0, 3.9), "AdamW": (6.0, 3.9), "SGD": (2.0, 1.07), "Adagrad": (3.9, 2.7)}
MOMENTUM = (4.0, 1.8)  # of SGD (measured: 4.4, 2.0, 1.7)
OPTIMIZER_SOURCE = "the optimizer's groups"
ONE_CALL = Proposal(
    id="optimizer-fused",
    title="let the optimizer update all tensors in one call",
    fix=Fix("where the optimizer is built", "torch.optim.AdamW(..., fused=True)"),
    apply="hook~",
    risk="rounds differently in the last digits; refuses some options and tensor subclasses",
    basis="bound",
    treatments=(Treatment("optimizer", {"way": "fused"}),),
)
GROUPED = 2  # times as many groups as there are different settings, from which merging them pays (chosen)
GROUPS = Proposal(
    id="optimizer-groups",
    title="merge the optimizer's parameter groups that have the same settings",
    fix=Fix("where the optimizer is built", snippet("cpu_compute", "MERGED_GROUPS")),
    risk="the order of parameters in a saved optimizer changes: old checkpoints of it do not fit",
    basis="bound",
)


@finding("host.launch", GROUPS, ONE_CALL, needs=(clocked_loop,))
def optimizer_step_slow(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when a loop over tensors takes a visible part of the step."""
    scenario, share = given(diagnosis.scenario), optimizer_share(diagnosis)
    if share < NOTICED:
        return None
    known = optimizers(diagnosis)
    if not known:
        return "the optimizer's class and settings"
    if len({one.name for one in known}) > 1 and any(one.closure for one in known):
        return "which of several optimizers takes the time"
    slow = [one for one in known if _is_split(one) or updates_slowly(diagnosis, one)]
    part = sum(one.elements for one in slow) / max(1, sum(one.elements for one in known))
    seconds = part * optimizer_s(diagnosis, scenario)
    proposals = _proposals(diagnosis, slow[0], seconds) if slow else []
    if not proposals:
        return None
    tensors, numbers = float(slow[0].tensors), float(slow[0].elements)
    timed = CLOCK if diagnosis.host.accelerated else "hooks around step"
    singly = " one by one" if updates_singly(slow[0]) or _is_split(slow[0]) else ""
    evidence = [
        Evidence("share of the step in the optimizer", "optimizer_share", share, timed),
        Evidence(f"tensors updated{singly}", "optimizer_tensors", tensors, OPTIMIZER_SOURCE),
        Evidence("numbers in these tensors", "optimizer_elements", numbers, OPTIMIZER_SOURCE),
        data_wait_evidence(diagnosis),
    ]
    if _is_split(slow[0]):
        groups, unlike = float(slow[0].groups), float(slow[0].unlike_groups)
        evidence[1:1] = [
            Evidence("parameter groups of the optimizer", "optimizer_groups", groups, OPTIMIZER_SOURCE),
            Evidence("different settings among them", "optimizer_settings", unlike, OPTIMIZER_SOURCE),
        ]
    cause = computing_cause(diagnosis) if diagnosis.host.accelerated else "host.launch"
    return Finding("optimizer-step-slow", cause, evidence, proposals, built_at(slow[0]))


def _is_split(one: Optimizer) -> bool:
    """Whether groups with the same settings keep one call from updating many tensors."""
    return one.library == "torch" and not one.closure and one.groups > GROUPED * max(1, one.unlike_groups)


def _rate(one: Optimizer) -> Factor | None:
    """How many times as fast the update can be: at worst half of what it likely gains."""
    small = one.elements < SMALL * max(one.tensors, 1)
    if not one.fusible or one.name not in OPTIMIZER_FUSED:
        return None
    if one.device != "cpu":
        return tuple(1 / left for left in PARTLY)  # type: ignore[return-value]
    rates = MOMENTUM if one.name == "SGD" and one.momentum else OPTIMIZER_FUSED[one.name]
    likely = rates[0] if small else rates[1]
    return (1 + likely) / 2, likely, likely


def _proposals(diagnosis: Diagnosis, one: Optimizer, seconds: float) -> list[Proposal]:
    found, scenario = [], given(diagnosis.scenario)
    if _is_split(one):
        gone = seconds * (1 - one.unlike_groups / one.groups)
        title = f"give the optimizer {one.unlike_groups} parameter groups in place of {one.groups}"
        changes = (lighter(diagnosis, gone * (1 - left)) for left in PARTLY)
        merged = replace(GROUPS.at(built_at(one)), title=title)
        found.append(priced(merged, scenario, *changes, most=lighter(diagnosis, gone)))
    rate = _rate(one) if updates_slowly(diagnosis, one) else None
    if rate is None:
        return found
    remedy = replace(
        ONE_CALL.at(built_at(one), f"torch.optim.{one.name}(..., fused=True)"),
        title=ONE_CALL.title.replace("the optimizer", one.name),
    )
    changes = (lighter(diagnosis, seconds * (1 - 1 / times)) for times in rate)
    return [*found, priced(remedy, scenario, *changes, most=lighter(diagnosis, seconds))]


# padding-waste
BATCHES_AT_LEAST = 3  # inspected (chosen)
PADDING_SOURCE = "sampled batches"
PACKED = re.compile("_pack_padded_sequence|varlen|_nested_|_jagged_")  # operators that skip padding
BUCKET = Proposal(
    id="bucket-by-cost",
    title="draw batches of sequences of like lengths",
    fix=Fix("where batches are put together", snippet("cpu_compute", "BY_LENGTH")),
    effort="hours",
    risk="batches are drawn in another order; a compiled model may want fixed shapes",
    basis="bound",
)

LONGEST = Proposal(
    id="pad-to-longest",
    title="pad each batch to its longest row, not to a fixed length",
    fix=Fix("where batches are put together", snippet("cpu_compute", "PADDED")),
    effort="hours",
    risk="shapes change from batch to batch: a compiled model may compile again",
    basis="bound",
)


@finding("model.compute", LONGEST, BUCKET, needs=(clocked_loop,), reach=RECORDED)
def padding_waste(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when much of what the model computes on is padding."""
    scenario, loader = given(diagnosis.scenario), diagnosis.loader
    known = diagnosis.profile.computing.paddings
    found = next((one for one in known if loader is not None and one.loader == loader.key), None)
    if loader is None or found is None:
        return None
    share = found.padded / max(found.places, 1)
    computing = computing_share(scenario)
    if share < LARGE_PART or found.batches < BATCHES_AT_LEAST or computing < NOTICED:
        return None
    if not diagnosis.profile.operators:
        return "a profiled step: whether the padding is packed away"
    if operators(diagnosis, lambda name: PACKED.search(name) is not None):
        return None
    evidence = [
        Evidence("share of the places in a batch that are padding", "padding_share", share, PADDING_SOURCE),
        Evidence("inspected batches", "padding_batches", float(found.batches), PADDING_SOURCE),
        Evidence("share of the step that the model computes", "compute_share", computing, "replay"),
    ]
    beyond, within = (one / max(found.places, 1) for one in (found.beyond, found.padded - found.beyond))
    proposals = []
    if beyond >= NOTICED:
        text = "share of the places beyond the longest row of the batch"
        evidence.insert(1, Evidence(text, "beyond_share", beyond, PADDING_SOURCE))
        proposals.append(_without(LONGEST.at(loader.location), scenario, beyond, MOSTLY))
    if within >= LARGE_PART * (1 - beyond):
        proposals.append(_without(BUCKET.at(loader.location), scenario, within, PARTLY))
    return Finding("padding-waste", computing_cause(diagnosis), evidence, proposals) if proposals else None


def _without(remedy: Proposal, scenario: Scenario, share: float, lefts: Factor) -> Proposal:
    """The remedy that spares the model this share of its places, wherever it computes."""
    left, most = left_of(share, lefts), Change(compute=1 - share, device=1 - share)
    return priced(remedy, scenario, *each(compute=left, device=left), most=most)


# attention-unfused
PRODUCTS = 2.0  # batched ones for each softmax: scores, and what they weigh
SOFTMAX_S = 2e-4  # for one of them: a matrix worth keeping out of memory (chosen)
KERNEL_S = SOFTMAX_S / 10  # likewise on a GPU, whose memory is some ten times as fast [data sheets]
NAMES = ("bmm", "baddbmm", "_softmax", "_softmax_backward_data", "masked_fill_")
ATTENTION_FUSE = Proposal(
    id="sdpa-attention",
    title="compute attention in one operator",
    fix=Fix("in place of the three", "y = torch.nn.functional.scaled_dot_product_attention(Q, K, V)"),
    effort="hours",
    risk="the weights are not returned; the last digits may differ",
    basis="bound",
)


@finding("model.compute", ATTENTION_FUSE, needs=(profiled_step,))
def attention_unfused(diagnosis: Diagnosis) -> Finding | None:
    """Fires when attention written as product, softmax, product takes a visible part of the time."""
    scenario = given(diagnosis.scenario)
    share = share_of(diagnosis, lambda name: name in NAMES)
    softmaxes = operators(diagnosis, lambda name: name == "_softmax")
    calls = sum(one.calls for one in softmaxes)
    each_s = computing_s(diagnosis, softmaxes) / calls if calls else 0.0
    products = sum(one.calls for one in operators(diagnosis, lambda name: name in ("bmm", "baddbmm")))
    least_s = KERNEL_S if diagnosis.host.accelerated else SOFTMAX_S
    if share < NOTICED or each_s < least_s or products < PRODUCTS * calls:
        return None
    if operators(diagnosis, lambda name: name == "_scaled_dot_product_attention_math"):
        return None  # the one operator is called: dropout, a mask, a type or a size keeps it from fusing
    proposal = _without(ATTENTION_FUSE, scenario, share, PARTLY)
    evidence = [
        Evidence("share of the operators' time in attention", "attention_share", share, PROFILER),
        Evidence("softmaxes over scores in a step", "softmaxes", calls, PROFILER),
        Evidence("time of one softmax", "softmax_s", each_s, PROFILER),
    ]
    return Finding("attention-unfused", computing_cause(diagnosis), evidence, [proposal])


# embedding-gradients-dense
TOUCHED = 1 - ALL_BUT_NOISE  # of the rows at most
LOOKED_AT_LEAST = 256  # rows (chosen)
ROWS = "gradients after one step"
SPARSE = Proposal(
    id="sparse-gradients",
    title="update only the rows of an embedding that a batch looks up",
    fix=Fix(
        "give embeddings sparse gradients and an optimizer for them", snippet("cpu_compute", "TWO_OPTIMIZERS")
    ),
    risk="moments of rows rest while they are not looked up; no weight decay; clipping refuses them",
)


@finding("model.compute", SPARSE, needs=(clocked_loop,))
def embedding_gradients_dense(diagnosis: Diagnosis) -> Finding | None:
    """Fires when the optimizer updates whole embedding tables of which a step looks up few rows."""
    scenario, known, tables = given(diagnosis.scenario), optimizers(diagnosis), _tables(diagnosis)
    if not tables or not known:
        return None
    inside = sum(one.elements for one in tables)
    part = min(1.0, inside / max(1, sum(one.elements for one in known)))
    touched = sum(one.touched for one in tables) / sum(one.looked for one in tables)
    filled = operators(diagnosis, lambda name: name in ("fill_", "zero_", "embedding_dense_backward"))
    filling_s = computing_s(diagnosis, filled)
    untouched = (1 - touched) * part
    seconds = untouched * (optimizer_s(diagnosis, scenario) + filling_s)
    changes = [
        replace(lighter(diagnosis, (1 - left) * seconds, launches=False), paging=1 - (1 - left) * untouched)
        for left in MOSTLY
    ]
    evidence = [
        Evidence("share of the tables' rows that a step gave a gradient", "touched_share", touched, ROWS),
        Evidence("numbers in these tables", "table_elements", float(inside), ROWS),
        Evidence("share of all numbers optimized", "table_share", part, "the optimizer's groups"),
    ]
    if filled:
        evidence.append(Evidence("time a step fills tensors with zeros", "fill_s", filling_s, PROFILER))
    place = built_at(known[0])
    most = changes[-1] if diagnosis.host.accelerated else None
    proposal = priced(SPARSE.at(place), scenario, *changes, most=most)
    return Finding("embedding-gradients-dense", computing_cause(diagnosis), evidence, [proposal], place)


def _tables(diagnosis: Diagnosis) -> list[GradientRows]:
    """The embedding tables of the loop's process of which a batch looks up few rows."""
    pid, tables = given(diagnosis.loop).pid, diagnosis.profile.computing.gradient_rows
    mine = [one for one in tables if one.pid == pid and one.looked >= LOOKED_AT_LEAST]
    return [one for one in mine if one.touched <= TOUCHED * one.looked]


# gradients-unused
NO_GRAD = Proposal(
    id="no-grad",
    title="compute without gradients what is not trained",
    fix=Fix(
        "where it is called, in the loop or in a module's forward",
        "with torch.no_grad():  # keeps nothing for a backward pass\n    targets = TEACHER(X)",
    ),
    risk="what is computed within is not trained, whatever an optimizer made later holds",
)


@finding("model.compute", NO_GRAD, needs=(clocked_loop,))
def gradients_unused(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when much of the backward pass computes gradients that no optimizer uses."""
    scenario, known = given(diagnosis.scenario), switches(diagnosis)
    if known is None or known.unused_share is None:
        return "a graph of the training, and the optimizers that it has"
    share = known.unused_share
    if share < NOTICED:
        return None
    accelerated, timed = diagnosis.host.accelerated, "hook on it"
    backward_s = mean_in(diagnosis.steps, "backward")
    if accelerated:
        backward_s, timed = device_part_s(diagnosis, "backward_s"), CLOCK
    text = "share of the multiplications whose gradients no optimizer uses"
    evidence = [
        Evidence(text, "unused_gradient_share", share, "graph of the loss"),
        Evidence("time per step in the backward pass", "backward_s", backward_s, timed),
    ]
    changes = [lighter(diagnosis, (1 - left) * share * backward_s) for left in WHOLLY]
    proposal = priced(NO_GRAD, scenario, *changes, most=changes[-1] if accelerated else None)
    return Finding("gradients-unused", computing_cause(diagnosis), evidence, [proposal])
