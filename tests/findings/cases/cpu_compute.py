"""Cases of the findings in cpu_compute.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.computing import (
    Compilation,
    Computing,
    DispatchBreakdown,
    GradientRows,
    Optimizer,
    Padding,
    ScriptSettings,
)
from bottleneck_doctor.model.diagnosis import Diagnosis, StepCost
from bottleneck_doctor.model.instruments import Operator, Series
from tests.findings.builders import Case, cpu_run, dispatch_like

# dispatch-bound
TINY = StepCost(0.0005, launch=0.0015)
LARGE = StepCost(0.02, launch=0.001)
DISPATCH_TABLE = [Operator("aten::addmm", 30.0, 2e-4), Operator("aten::add_", 60.0, 1e-4)]


def _dispatch_case(
    cost: StepCost, optimizer: float = 0.0, found: DispatchBreakdown | None = None
) -> Diagnosis:
    """A loop that takes ``cost``; ``optimizer`` is the optimizer's share of it."""
    seen = found or dispatch_like(cost, 1500, 0.0)
    sick = cpu_run(cost, Computing(anatomies=[seen]), DISPATCH_TABLE)
    own = cost.compute + cost.launch
    steps = [replace(step, optimizer=optimizer * own, compute=(1 - optimizer) * own) for step in sick.steps]
    return replace(sick, steps=steps)


def _compiled() -> Diagnosis:
    sick = _dispatch_case(TINY)
    facts = replace(sick.profile.computing, compilations=[Compilation(1, [1.0], [4], [0], [2.0])])
    return replace(sick, profile=replace(sick.profile, computing=facts))


def _adds_up(used: float) -> Diagnosis:
    """Four batches for each optimizer step, in so many bytes of ten gigabytes."""
    sick = _dispatch_case(TINY, optimizer=0.05)
    steps = [
        replace(step, optimizer=step.optimizer if place % 4 == 3 else 0.0)
        for place, step in enumerate(sick.steps)
    ]
    memory = Series([1.0], {"job_private_bytes": [used], "memory_available_bytes": [1e10]})
    return replace(sick, steps=steps, profile=replace(sick.profile, series=memory))


def dispatch_bound() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    bare = replace(_dispatch_case(TINY).profile, operators=[])
    return (
        Case("thirty layers of width 64", _dispatch_case(TINY), "fires", "torch-compile"),
        Case("loops over small tensors", _dispatch_case(TINY), "fires", "fuse-operators"),
        Case("compiled already, in pieces", _compiled(), "fires", "fuse-operators"),
        Case("gradients of four small batches add up", _adds_up(1e9), "fires", "bigger-batch"),
        Case("so they do, and memory holds no four", _adds_up(5e9), "fires", "torch-compile"),
        Case("large products", _dispatch_case(LARGE), "silent"),
        Case("it is the optimizer that loops", _dispatch_case(TINY, optimizer=0.7), "silent"),
        Case("no step was profiled", replace(_dispatch_case(TINY), profile=bare), "abstains"),
    )


# optimizer-step-slow
OPTIMIZER_ADAM = Optimizer(
    1, "AdamW", "torch", 200, 800_000, fusible=True, device="cpu", file="train.py", line=9
)
OPTIMIZER_COST = StepCost(0.006, launch=0.004)


def _optimizer_case(one: Optimizer | None, share: float = 0.4, cost: StepCost = OPTIMIZER_COST) -> Diagnosis:
    """A step of 10 ms, of which the optimizer takes a share."""
    sick = cpu_run(cost, Computing(optimizers=[one] if one else []))
    steps = [
        replace(step, optimizer=share * step.wall, compute=step.compute - share * step.wall)
        for step in sick.steps
    ]
    return replace(sick, steps=steps)


def optimizer_step_slow() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    return (
        Case("AdamW loops over 200 tensors", _optimizer_case(OPTIMIZER_ADAM), "fires", "optimizer-fused"),
        Case(
            "RMSprop has no fused form, and small tensors",
            _optimizer_case(replace(OPTIMIZER_ADAM, name="RMSprop", fusible=False, elements=20_000)),
            "fires",
            "optimizer-foreach",
        ),
        Case(
            "RMSprop with large tensors",
            _optimizer_case(replace(OPTIMIZER_ADAM, name="RMSprop", fusible=False)),
            "silent",
        ),
        Case("plain SGD with large tensors", _optimizer_case(replace(OPTIMIZER_ADAM, name="SGD")), "silent"),
        Case("it is fused already", _optimizer_case(replace(OPTIMIZER_ADAM, fused=True)), "silent"),
        Case(
            "a closure runs the model inside of it",
            _optimizer_case(replace(OPTIMIZER_ADAM, closure=True)),
            "silent",
        ),
        Case("it takes a twentieth of the step", _optimizer_case(OPTIMIZER_ADAM, 0.05), "silent"),
        Case("nothing is known of the optimizer", _optimizer_case(None), "abstains"),
    )


# padding-waste
PADDING_COST = StepCost(0.02)
PADDING_TABLE = [Operator("aten::mm", 8.0, 0.015)]


def _padding_case(
    found: Padding | None, table: list[Operator] = PADDING_TABLE, cost: StepCost = PADDING_COST
) -> Diagnosis:
    """Sentences under a model that computes for 20 ms."""
    facts = Computing(anatomies=[dispatch_like(cost)], paddings=[found] if found else [])
    return cpu_run(cost, facts, table)


def padding_waste() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    half = Padding("1:1", 20, 100_000, 52_000)
    packed = [*PADDING_TABLE, Operator("aten::_pack_padded_sequence", 1.0, 1e-4)]
    return (
        Case("half of the places are padding", _padding_case(half), "fires", "bucket-by-cost"),
        Case("a tenth is padding", _padding_case(replace(half, padded=10_000)), "silent"),
        Case("the padding is packed away", _padding_case(half, packed), "silent"),
        Case("no rows of tokens", _padding_case(None), "silent"),
        Case("the model hardly computes", _padding_case(half, cost=StepCost(0.001, 0.02)), "silent"),
        Case("no step was profiled", _padding_case(half, []), "abstains"),
    )


# attention-unfused
ATTENTION_COST = StepCost(0.05, launch=0.001)
BY_HAND = [
    Operator("aten::bmm", 12.0, 0.016),
    Operator("aten::_softmax", 2.0, 0.006),
    Operator("aten::_softmax_backward_data", 2.0, 0.005),
    Operator("aten::addmm", 8.0, 0.01),
]
FUSED_TABLE = [
    Operator("aten::_scaled_dot_product_flash_attention_for_cpu", 2.0, 0.01),
    Operator("aten::addmm", 8.0, 0.01),
]
ROUTER = [Operator("aten::bmm", 12.0, 0.03), Operator("aten::_softmax", 6.0, 1e-4)]


def _attention_case(table: list[Operator]) -> Diagnosis:
    """A transformer's step of 50 ms."""
    return cpu_run(ATTENTION_COST, Computing(anatomies=[dispatch_like(ATTENTION_COST)]), table)


def attention_unfused() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    return (
        Case("attention by hand over long sequences", _attention_case(BY_HAND), "fires", "sdpa-attention"),
        Case("fused already", _attention_case(FUSED_TABLE), "silent"),
        Case("experts are chosen by a small softmax", _attention_case(ROUTER), "silent"),
        Case("no step was profiled", _attention_case([]), "abstains"),
    )


# embedding-gradients-dense
EMBEDDING_COST = StepCost(0.02, launch=0.001)
EMBEDDING_ADAM = Optimizer(
    1, "Adam", "torch", 12, 20_500_000, fused=True, device="cpu", file="train.py", line=9
)
FEW = GradientRows(1, 20_000_000, 1_250_000, 1000, 4)


def _embedding_case(rows: GradientRows | None, share: float = 0.6) -> Diagnosis:
    """A step of 20 ms, of which the optimizer takes a share."""
    facts = Computing(optimizers=[EMBEDDING_ADAM], gradient_rows=[rows] if rows else [])
    sick = cpu_run(EMBEDDING_COST, facts, [Operator("aten::fill_", 4.0, 0.001)])
    steps = [
        replace(step, optimizer=share * step.wall, compute=step.compute - share * step.wall)
        for step in sick.steps
    ]
    return replace(sick, steps=steps)


def embedding_gradients_dense() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    return (
        Case("a table of a million rows, of which a batch has some thousand", _embedding_case(FEW), "fires",
             "sparse-gradients"),
        Case("the output is tied to it", _embedding_case(replace(FEW, touched=1000)), "silent"),
        Case("a small table in a large model", _embedding_case(replace(FEW, elements=80_000)), "silent"),
        Case("too few rows were sampled", _embedding_case(replace(FEW, looked=100)), "silent"),
        Case("no such table", _embedding_case(None), "silent"),
        Case("no loop", replace(_embedding_case(FEW), loop=None), "abstains"),
    )  # fmt: skip


# gradients-unused
def _unused_case(share: float | None, backward: float = 0.6) -> Diagnosis:
    """A model that computes for 20 ms, so much of it in the backward pass."""
    cost = StepCost(0.02)
    sick = cpu_run(cost, Computing(switches=[ScriptSettings(1, unused_share=share)]))
    return replace(sick, steps=[replace(one, backward=backward * one.wall) for one in sick.steps])


def gradients_unused() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    return (
        Case("a large teacher runs with gradients", _unused_case(0.9), "fires", "no-grad"),
        Case("the teacher is small", _unused_case(0.05), "silent"),
        Case("the backward pass is short", _unused_case(0.9, 0.02), "silent"),
        Case("all that is computed is trained", _unused_case(0.0), "silent"),
        Case("no optimizer was seen", _unused_case(None), "abstains"),
    )
