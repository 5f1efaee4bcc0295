"""Cases of the findings in cpu_compute.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.device import Kernels
from bottleneck_doctor.model.diagnosis import Diagnosis, StepCost
from bottleneck_doctor.model.instruments import Operator
from bottleneck_doctor.model.profile import (
    Compilation,
    Computing,
    GradientRows,
    Optimizer,
    Padding,
    ScriptSettings,
)
from tests.findings.builders import (
    LAUNCHING,
    SATURATED,
    Case,
    abstains,
    cpu_run,
    dispatch_like,
    fires,
    gpu_run,
    kernels,
    silent,
)

# dispatch-bound
TINY = StepCost(0.0005, launch=0.0015)
LARGE = StepCost(0.02, launch=0.001)
DISPATCH_TABLE = [Operator("aten::addmm", 30.0, 2e-4), Operator("aten::add_", 60.0, 1e-4)]


def _optimizing(sick: Diagnosis, share: float) -> Diagnosis:
    """The same, the optimizer taking a share of the step."""
    steps = [replace(one, optimizer=share * one.wall, compute=(1 - share) * one.wall) for one in sick.steps]
    return replace(sick, steps=steps)


def _dispatch_case(cost: StepCost, optimizer: float = 0.0) -> Diagnosis:
    seen = dispatch_like(cost, 1500, 0.0)
    return _optimizing(cpu_run(cost, Computing(anatomies=[seen]), DISPATCH_TABLE), optimizer)


def _compiled() -> Diagnosis:
    sick = _dispatch_case(TINY)
    facts = replace(sick.profile.computing, compilations=[Compilation(1, [1.0], [4], [0], [2.0])])
    return replace(sick, profile=replace(sick.profile, computing=facts))


def dispatch_bound() -> tuple[Case, ...]:
    return (
        fires("thirty layers of width 64", _dispatch_case(TINY), "fuse-operators bigger-batch"),
        fires("compiled already, in pieces", _compiled(), "fuse-operators bigger-batch"),
        silent("large products", _dispatch_case(LARGE)),
        silent("it is the optimizer that loops", _dispatch_case(TINY, optimizer=0.7)),
    )


# optimizer-step-slow
OPTIMIZER_ADAM = Optimizer(
    1, "AdamW", "torch", 200, 800_000, fusible=True, device="cpu", file="train.py", line=9
)
OPTIMIZER_COST = StepCost(0.006, launch=0.004)


def _optimizer_case(one: Optimizer | None, share: float = 0.4) -> Diagnosis:
    return _optimizing(cpu_run(OPTIMIZER_COST, Computing(optimizers=[one] if one else [])), share)


ON_GPU = replace(OPTIMIZER_ADAM, device="cuda")
TOGETHER = replace(ON_GPU, foreach=True)


def _optimizing_gpu(one: Optimizer, share: float = 0.15) -> Diagnosis:
    """A step of 20 ms on a device, 9 of them in the optimizer; its kernels take a ``share`` of the step."""
    found = [Kernels("optimizer", share * 0.02, 2200.0, 2e-6), kernels("matmul", 0.15, "bfloat16")]
    return gpu_run(LAUNCHING, Computing(optimizers=[one]), found=found, optimizer_s=0.009)


def optimizer_step_slow() -> tuple[Case, ...]:
    return (
        fires("AdamW loops over 200 tensors", _optimizer_case(OPTIMIZER_ADAM), "optimizer-fused"),
        fires(
            "one group for each tensor",
            _optimizer_case(replace(OPTIMIZER_ADAM, foreach=True, groups=200, unlike_groups=12)),
            "optimizer-groups",
        ),
        silent("it is fused already", _optimizer_case(replace(OPTIMIZER_ADAM, fused=True))),
        silent(
            "each of its groups has settings of its own",
            _optimizer_case(replace(OPTIMIZER_ADAM, fused=True, groups=12, unlike_groups=12)),
        ),
        silent("a closure runs the model", _optimizer_case(replace(OPTIMIZER_ADAM, closure=True))),
        silent("it takes a twentieth of the step", _optimizer_case(OPTIMIZER_ADAM, 0.05)),
        fires("a loop on a GPU", _optimizing_gpu(ON_GPU), "optimizer-fused"),
        fires("many passes over many weights", _optimizing_gpu(TOGETHER, 0.5), "optimizer-fused"),
        silent("one call on a GPU", _optimizing_gpu(replace(ON_GPU, fused=True), 0.5)),
        silent("many tensors a call", _optimizing_gpu(TOGETHER, 0.05)),
        abstains("nothing is known of the optimizer", _optimizer_case(None)),
    )


# padding-waste
PADDING_COST = StepCost(0.02)
PADDING_TABLE = [Operator("aten::mm", 8.0, 0.015)]


def _padding_case(
    found: Padding | None, table: list[Operator] = PADDING_TABLE, cost: StepCost = PADDING_COST
) -> Diagnosis:
    """Sentences under a model that computes for 20 ms."""
    return cpu_run(cost, Computing(anatomies=[dispatch_like(cost)], paddings=[found] if found else []), table)


def _padded_gpu(found: Padding, name: str = "aten::mm") -> Diagnosis:
    table = [Operator("aten::mm", 8.0, 1e-4, 0.015), Operator(name, 4.0, 1e-4, 0.001)]
    return gpu_run(SATURATED, Computing(paddings=[found]), table)


def padding_waste() -> tuple[Case, ...]:
    half = Padding("1:1", 20, 100_000, 52_000)
    packed = [*PADDING_TABLE, Operator("aten::_pack_padded_sequence", 1.0, 1e-4)]
    return (
        fires("half of the places are padding", _padding_case(half), "bucket-by-cost"),
        fires(
            "rows are padded to a fixed length", _padding_case(replace(half, beyond=50_000)), "pad-to-longest"
        ),
        fires(
            "to a fixed length, and rows are of many lengths",
            _padding_case(replace(half, padded=80_000, beyond=30_000)),
            "pad-to-longest bucket-by-cost",
        ),
        silent("a tenth is padding", _padding_case(replace(half, padded=10_000))),
        silent("the padding is packed away", _padding_case(half, packed)),
        silent("no rows of tokens", _padding_case(None)),
        abstains("no step was profiled", _padding_case(half, [])),
        silent("the model hardly computes", _padding_case(half, cost=StepCost(0.001, 0.02))),
        fires("on a GPU", _padded_gpu(half), "bucket-by-cost"),
        silent("a tenth, on a GPU", _padded_gpu(replace(half, padded=10_000))),
        silent("attention that skips it", _padded_gpu(half, "flash_attn::_flash_attn_varlen_forward")),
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
IN_PARTS = [*BY_HAND, Operator("aten::_scaled_dot_product_attention_math", 2.0, 1e-4)]
ROUTER = [Operator("aten::bmm", 12.0, 0.03), Operator("aten::_softmax", 6.0, 1e-4)]


def _attention_case(table: list[Operator]) -> Diagnosis:
    """A transformer's step of 50 ms."""
    return cpu_run(ATTENTION_COST, Computing(anatomies=[dispatch_like(ATTENTION_COST)]), table)


def _attending_gpu(also: str = "aten::addmm") -> Diagnosis:
    """The same on a device, which takes 9 of 20 ms for it."""
    table = [replace(one, self_cpu_s=1e-4, self_device_s=one.self_cpu_s / 3) for one in BY_HAND[:3]]
    return gpu_run(SATURATED, table=[*table, Operator(also, 2.0, 1e-4)])


def attention_unfused() -> tuple[Case, ...]:
    return (
        fires("attention by hand over long sequences", _attention_case(BY_HAND), "sdpa-attention"),
        silent("the one operator, which dropout keeps from fusing", _attention_case(IN_PARTS)),
        silent("fused already", _attention_case(FUSED_TABLE)),
        silent("experts are chosen by a small softmax", _attention_case(ROUTER)),
        fires("by hand on a GPU", _attending_gpu(), "sdpa-attention"),
        silent("fused on a GPU", gpu_run(SATURATED, table=FUSED_TABLE)),
        silent("the fused one, kept from fusing", _attending_gpu(IN_PARTS[-1].name)),
    )


# embedding-gradients-dense
EMBEDDING_COST = StepCost(0.02, launch=0.001)
EMBEDDING_ADAM = Optimizer(
    1, "Adam", "torch", 12, 20_500_000, fused=True, device="cpu", file="train.py", line=9
)
FEW = GradientRows(1, 20_000_000, 1_250_000, 1000, 4)


def _embedding_case(rows: GradientRows) -> Diagnosis:
    facts = Computing(optimizers=[EMBEDDING_ADAM], gradient_rows=[rows])
    return _optimizing(cpu_run(EMBEDDING_COST, facts, [Operator("aten::fill_", 4.0, 0.001)]), 0.6)


def _looking_up(touched: int) -> Diagnosis:
    rows = replace(FEW, looked=FEW.rows, touched=touched)
    facts = Computing(optimizers=[replace(EMBEDDING_ADAM, device="cuda")], gradient_rows=[rows])
    return gpu_run(SATURATED, facts, [Operator("aten::fill_", 4.0, 1e-5, 0.001)], optimizer_s=0.012)


def embedding_gradients_dense() -> tuple[Case, ...]:
    return (
        fires("a batch has few rows of a table", _embedding_case(FEW), "sparse-gradients"),
        silent("the output is tied to it", _embedding_case(replace(FEW, touched=1000))),
        silent("too few rows were sampled", _embedding_case(replace(FEW, looked=100))),
        fires("on a GPU", _looking_up(8192), "sparse-gradients"),
        silent("all of a table, on a GPU", _looking_up(1_250_000)),
    )


# gradients-unused
def _unused_case(share: float | None) -> Diagnosis:
    """A model that computes for 20 ms, 12 of them in the backward pass."""
    sick = cpu_run(StepCost(0.02), Computing(switches=[ScriptSettings(1, unused_share=share)]))
    return replace(sick, steps=[replace(one, backward=0.6 * one.wall) for one in sick.steps])


def _unused_gpu(share: float) -> Diagnosis:
    return gpu_run(SATURATED, Computing(switches=[ScriptSettings(1, unused_share=share)]), backward_s=0.012)


def gradients_unused() -> tuple[Case, ...]:
    return (
        fires("a large teacher runs with gradients", _unused_case(0.9), "no-grad"),
        silent("the teacher is small", _unused_case(0.05)),
        fires("a large teacher on a GPU", _unused_gpu(0.9), "no-grad"),
        silent("no teacher on a GPU", _unused_gpu(0.0)),
        abstains("no optimizer was seen", _unused_case(None)),
    )
