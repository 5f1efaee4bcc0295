"""How a model computes on the CPU: small operators, optimizer, padding, attention, gradients, compilation."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from ..analyse.causes import gain
from ..analyse.predict import WORTH
from ..analyse.steps import mean_in
from ..model.computing import GradientRows, Optimizer
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal, Scenario
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.computing import (
    PROFILER,
    WHOLE,
    Factor,
    anatomy,
    as_one,
    batches_added_up,
    built_at,
    faster,
    operators,
    optimizer_s,
    optimizers,
    own_s,
    share_of,
    spared,
    switches,
)
from .parts.entry import Entry, cpu_loop, given, profiled_cpu_step, spread
from .parts.facts import step_share
from .parts.waits import data_wait_evidence

# dispatch-bound
LAUNCH_SHARE = 0.4  # of the step (chosen)
OUTSIDE_SHARE = 0.5  # of the calls' price that is not the optimizer's (chosen)
DISPATCH_FUSED = (0.9, 0.4, 0.02)  # of the price that is left when calls are merged (chosen)
COMPILED = (1.0, 1.3, 2.0)  # torch.compile's documentation, and 1.5 (measured: 2.34 to 1.52 ms)
MERGED = """\
y = torch.bmm(x, weights)                  # one product for all heads, experts or members, not a loop
h, _ = torch.nn.LSTM(...)(x)               # the fused layer, not a cell per time step
y = torch.nn.functional.gelu(x)            # the library's function, not its formula"""
DISPATCH_FUSE = Proposal(
    id="fuse-operators",
    title="do in one call what takes many",
    fix=Fix("merge loops over small tensors into calls on large ones", MERGED),
    effort="hours",
    risk="results may differ in the last digits",
    basis="bound",
)
COMPILE = Proposal(
    id="torch-compile",
    title="let torch.compile merge the model's operators",
    fix=Fix(
        "before the loop",
        "model.compile()                     # in place: state_dict keys stay; warm it up before timing",
    ),
    factor=COMPILED,
    apply="hook~",
    risk="first steps take half a minute and more; each new shape may compile again; numbers may differ",
    basis="bound",
    treatments=(Treatment("compiled"),),
)


def dispatch_bound(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when calling operators takes a large part of the step."""
    scenario, found = given(diagnosis.scenario), given(anatomy(diagnosis))
    launch = fmean(cost.launch for cost in scenario.costs)
    share = 1 - 1 / gain(scenario, Change(launch=0))
    outside = 1 - min(1.0, optimizer_s(diagnosis, scenario) / max(launch, 1e-12))
    if share < LAUNCH_SHARE or outside < OUTSIDE_SHARE:
        return None
    evidence = [
        Evidence("share of the step that calling operators takes", "launch_share", share, PROFILER),
        Evidence("operators in the profiled step", "operators_per_step", float(found.operators), PROFILER),
        Evidence("time to call one operator", "launch_s", launch / max(found.operators, 1), PROFILER),
    ]
    fused = (Change(launch=1 - outside * (1 - left)) for left in DISPATCH_FUSED)
    most = gain(scenario, Change(launch=0.0))
    proposals = [replace(DISPATCH_FUSE, factor=spread(scenario, *fused), most=most)]
    if not diagnosis.profile.computing.compilations:
        proposals.append(replace(COMPILE, most=most))
    whole = as_one(diagnosis, scenario, batches_added_up(diagnosis), Change())
    if whole is not None:
        proposals.append(whole)
        evidence.append(Evidence("gradients of several batches add up for one optimizer step"))
    return Finding("dispatch-bound", "host.launch", evidence, proposals)


# optimizer-step-slow
OPTIMIZER_SHARE = 0.1  # of the step (chosen)
SMALL = 2048  # numbers in a mean tensor, below which calls cost more than memory (chosen)
# how many times as fast: for small tensors, for large ones (measured, thread CPU: tensors of 256, 4096
# and a million numbers: Adam 5.8, 3.7, 4.1; AdamW 6.7, 4.1, 4.0; SGD 2.2, 1.3, 1.1; Adagrad 3.9, 2.7, 3.4)
OPTIMIZER_FUSED = {"Adam": (6.0, 3.9), "AdamW": (6.0, 3.9), "SGD": (2.0, 1.07), "Adagrad": (3.9, 2.7)}
MOMENTUM = (4.0, 1.8)  # of SGD (measured: 4.4, 2.0, 1.7)
FOREACH = (1.0, 1.6, 2.0)  # for small tensors (measured: 1.5 to 2.0)
HOPEFUL = 1.2  # times that, at best (chosen)
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
FEW_CALLS = replace(
    ONE_CALL,
    id="optimizer-foreach",
    title="let the optimizer update all tensors in few calls",
    fix=Fix("where the optimizer is built", "torch.optim.RMSprop(..., foreach=True)"),
    treatments=(Treatment("optimizer", {"way": "foreach"}),),
)


def optimizer_step_slow(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when a loop over tensors takes a visible part of the step."""
    scenario, share = given(diagnosis.scenario), step_share(diagnosis, "optimizer")
    if share < OPTIMIZER_SHARE:
        return None
    known = optimizers(diagnosis)
    if not known:
        return Abstention("optimizer-step-slow", "the optimizer's class and settings")
    if len({one.name for one in known}) > 1 and any(one.closure for one in known):
        return Abstention("optimizer-step-slow", "which of several optimizers takes the time")
    slow = [one for one in known if _loops(one)]
    part = sum(one.elements for one in slow) / max(1, sum(one.elements for one in known))
    seconds = part * optimizer_s(diagnosis, scenario)
    proposal = _proposal(scenario, slow[0], seconds) if slow else None
    if proposal is None or given(proposal.factor)[1] < WORTH:
        return None
    evidence = [
        Evidence("share of the step in the optimizer", "optimizer_share", share, "hooks around step"),
        Evidence("tensors updated one by one", "optimizer_tensors", float(slow[0].tensors), OPTIMIZER_SOURCE),
        Evidence("numbers in these tensors", "optimizer_elements", float(slow[0].elements), OPTIMIZER_SOURCE),
        data_wait_evidence(diagnosis),
    ]
    return Finding("optimizer-step-slow", "host.launch", evidence, [proposal], built_at(slow[0]))


def _loops(one: Optimizer) -> bool:
    plain = one.library == "torch" and one.device == "cpu" and not one.closure
    return plain and not one.fused and not one.foreach


def _is_small(one: Optimizer) -> bool:
    return one.elements < SMALL * max(one.tensors, 1)


def _rate(one: Optimizer) -> Factor | None:
    """How many times as fast the fused step is: cautious, likely, hopeful."""
    if not one.fusible or one.name not in OPTIMIZER_FUSED:
        return None
    rates = MOMENTUM if one.name == "SGD" and one.momentum else OPTIMIZER_FUSED[one.name]
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


# padding-waste
PADDED_SHARE = 0.3  # of the places in a batch (chosen)
BATCHES_AT_LEAST = 3  # looked into (chosen)
COMPUTE_SHARE = 0.2  # of the step (chosen)
BUCKETED = 0.1  # of the places in batches of like lengths that are still padding (chosen)
FOLLOWS = 0.85  # of the computing that follows the padded length, likely (chosen)
PADDING_SOURCE = "sampled batches"
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


def padding_waste(diagnosis: Diagnosis) -> Finding | Abstention | None:
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
        return Abstention("padding-waste", "a profiled step: whether the padding is packed away")
    if operators(diagnosis, lambda name: name == "_pack_padded_sequence"):
        return None
    real = 1 - share
    likely = 1 - FOLLOWS * (1 - min(1.0, real / (1 - BUCKETED)))
    factor = spread(scenario, Change(), Change(compute=likely), Change(compute=real))
    if factor[1] < WORTH:
        return None
    evidence = [
        Evidence("share of the places in a batch that are padding", "padding_share", share, PADDING_SOURCE),
        Evidence("inspected batches", "padding_batches", float(found.batches), PADDING_SOURCE),
        Evidence("share of the step that the model computes", "compute_share", computing, "replay"),
    ]
    proposals = [replace(one.at(loader.location), factor=factor, most=factor[2]) for one in (BUCKET, PACK)]
    return Finding("padding-waste", "model.compute", evidence, proposals)


# attention-unfused
ATTENTION_SHARE = 0.15  # of the operators' time (chosen)
PRODUCTS = 2.0  # batched ones for each softmax (chosen)
SOFTMAX_S = 2e-4  # for one of them: a matrix worth keeping out of memory (chosen)
ATTENTION_FUSED = (1.0, 2.0, 3.0)  # times as fast (chosen)
SCALING = ("div", "div_", "mul", "mul_", "add", "add_", "masked_fill", "where")
# of a softmax's time, from which they do: a pass over scores takes half, small calls are mixed in (chosen)
ALIKE = 0.25
NAMES = ("bmm", "baddbmm", "_softmax", "_softmax_backward_data", "masked_fill_")
ATTENTION_FUSE = Proposal(
    id="sdpa-attention",
    title="compute attention in one operator",
    fix=Fix(
        "in place of product, softmax and product",
        "y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)   # or attn_mask=mask",
    ),
    effort="hours",
    risk="the weights themselves are no longer to be had; the last digits may differ",
    basis="bound",
)


def attention_unfused(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when attention by hand takes a visible part of the time."""
    scenario = given(diagnosis.scenario)
    share = share_of(diagnosis, lambda name: name in NAMES)
    softmaxes = operators(diagnosis, lambda name: name == "_softmax")
    calls = sum(one.calls for one in softmaxes)
    each = sum(one.self_cpu_s for one in softmaxes) / calls if calls else 0.0
    products = sum(one.calls for one in operators(diagnosis, lambda name: name in ("bmm", "baddbmm")))
    if share < ATTENTION_SHARE or each < SOFTMAX_S or products < PRODUCTS * calls:
        return None
    whole = min(1.0, share + _scaling(diagnosis, each))
    factor = faster(scenario, whole, ATTENTION_FUSED)
    if factor[1] < WORTH:
        return None
    proposal = replace(ATTENTION_FUSE, factor=factor, most=gain(scenario, Change(compute=1 - whole)))
    evidence = [
        Evidence("share of the operators' time in attention", "attention_share", share, PROFILER),
        Evidence("softmaxes over scores in a step", "softmaxes", calls, PROFILER),
        Evidence("time of one softmax", "softmax_s", each, PROFILER),
    ]
    return Finding("attention-unfused", "model.compute", evidence, [proposal])


def _scaling(diagnosis: Diagnosis, softmax_s: float) -> float:
    """The share of the operators' time in those that scale or mask whole matrices of scores."""
    wide = [
        one.name
        for one in operators(diagnosis, lambda name: name in SCALING)
        if one.self_cpu_s >= ALIKE * softmax_s * one.calls
    ]
    return share_of(diagnosis, lambda name: f"aten::{name}" in wide)


# embedding-gradients-dense
TOUCHED = 0.1  # of the rows at most (chosen)
LOOKED_AT_LEAST = 256  # rows (chosen)
EMBEDDING_SPARED = (
    0.8,
    0.9,
    1.0,
)  # of what goes through whole tables: low, likely, high (chosen: 0.9 measured)
ROWS = "gradients after one step"
TWO_OPTIMIZERS = """\
table = nn.Embedding(rows, width, sparse=True)
optimizers = [
    torch.optim.SparseAdam(tables, lr=lr),      # the embeddings' weights
    torch.optim.Adam(others, lr=lr),            # all the others
]"""
SPARSE = Proposal(
    id="sparse-gradients",
    title="update only the rows of an embedding that a batch looks up",
    fix=Fix("give embeddings sparse gradients and an optimizer for them", TWO_OPTIMIZERS),
    risk="moments of rows rest while they are not looked up; no weight decay; clipping refuses them",
)


def embedding_gradients_dense(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the optimizer updates whole embedding tables of which a step looks up few rows."""
    scenario, known, tables = given(diagnosis.scenario), optimizers(diagnosis), _tables(diagnosis)
    if not tables or not known:
        return None
    inside = sum(one.elements for one in tables)
    part = min(1.0, inside / max(1, sum(one.elements for one in known)))
    touched = sum(one.touched for one in tables) / sum(one.looked for one in tables)
    filled = operators(diagnosis, lambda name: name in ("fill_", "zero_", "embedding_dense_backward"))
    filling_s = sum(one.self_cpu_s for one in filled)
    untouched = (1 - touched) * part
    seconds = untouched * (optimizer_s(diagnosis, scenario) + filling_s)
    low, likely, high = (
        replace(spared(scenario, share * seconds), paging=1 - share * untouched) for share in EMBEDDING_SPARED
    )
    factor = spread(scenario, low, likely, high)
    if factor[1] < WORTH:
        return None
    evidence = [
        Evidence("share of the tables' rows that a step gave a gradient", "touched_share", touched, ROWS),
        Evidence("numbers in these tables", "table_elements", float(inside), ROWS),
        Evidence("share of all numbers optimized", "table_share", part, "the optimizer's groups"),
        Evidence("share of the step in the optimizer", "optimizer_share", step_share(diagnosis, "optimizer"),
                 "hooks around step"),
    ]  # fmt: skip
    if filled:
        evidence.append(Evidence("time a step fills tensors with zeros", "fill_s", filling_s, PROFILER))
    place = built_at(known[0])
    proposal = replace(SPARSE.at(place), factor=factor, most=gain(scenario, high))
    return Finding("embedding-gradients-dense", "model.compute", evidence, [proposal], place)


def _tables(diagnosis: Diagnosis) -> list[GradientRows]:
    """The embedding tables of the loop's process of which a batch looks up few rows."""
    return [
        one
        for one in diagnosis.profile.computing.gradient_rows
        if one.pid == given(diagnosis.loop).pid
        and one.looked >= LOOKED_AT_LEAST
        and one.touched <= TOUCHED * one.looked
    ]


# gradients-unused
SHARE = 0.1  # of the multiplications (chosen)
UNUSED_SPARED = (0.5, 1.0, 1.0)  # of their part of the backward pass: low, likely, high (chosen)
NO_GRAD = Proposal(
    id="no-grad",
    title="compute without gradients what is not trained",
    fix=Fix(
        "where it is called, in the loop or in a module's forward",
        "with torch.no_grad():          # keeps nothing for a backward pass\n    targets = teacher(x)",
    ),
    risk="what is computed within is not trained, whatever an optimizer made later holds",
)
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


def gradients_unused(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when much of the backward pass computes gradients that no optimizer uses."""
    scenario, known = given(diagnosis.scenario), switches(diagnosis)
    if known is None or known.unused_share is None:
        return Abstention("gradients-unused", "a graph of the training, and the optimizers that it has")
    share, backward_s = known.unused_share, mean_in(diagnosis.steps, "backward")
    factor = _gains(scenario, share * backward_s)
    if share < SHARE or factor[1] < WORTH:
        return None
    most = gain(scenario, spared(scenario, share * own_s(scenario)))
    text = "share of the multiplications whose gradients no optimizer uses"
    evidence = [
        Evidence(text, "unused_gradient_share", share, "graph of the loss"),
        Evidence("time per step in the backward pass", "backward_s", backward_s, "hook on it"),
    ]  # fmt: skip
    proposals = [replace(NO_GRAD, factor=factor), replace(KEEP_OUTPUTS, factor=(1.0, 1.0, most), most=most)]
    return Finding("gradients-unused", "model.compute", evidence, proposals)


def _gains(scenario: Scenario, seconds: float) -> tuple[float, float, float]:
    low, likely, high = (spared(scenario, part * seconds) for part in UNUSED_SPARED)
    return spread(scenario, low, likely, high)


FINDINGS = (
    Entry(
        "host.launch", dispatch_bound, needs=(profiled_cpu_step,), remedies=(DISPATCH_FUSE, COMPILE, WHOLE)
    ),
    Entry("host.launch", optimizer_step_slow, needs=(cpu_loop,), remedies=(ONE_CALL, FEW_CALLS)),
    Entry("model.compute", padding_waste, needs=(cpu_loop,), remedies=(BUCKET, PACK)),
    Entry("model.compute", attention_unfused, needs=(profiled_cpu_step,), remedies=(ATTENTION_FUSE,)),
    Entry("model.compute", embedding_gradients_dense, needs=(cpu_loop,), remedies=(SPARSE,)),
    Entry("model.compute", gradients_unused, needs=(cpu_loop,), remedies=(NO_GRAD, KEEP_OUTPUTS)),
)
