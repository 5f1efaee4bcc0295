"""Cures for the exchanges of a sharded model (FSDP, ZeRO): gathered twice, in full width, or needlessly."""

from __future__ import annotations

from ..analyse.causes import gain
from ..model.code import Location
from ..model.diagnosis import Change, Diagnosis, Proposal, Scenario
from ..model.loops import Parallel
from ..model.report import Fix
from .between_ranks import kinds_of, mean_of
from .computing import operators

ROOM = 0.5  # of a rank's memory, below which the whole model is taken to fit (ours)
STATES = 4  # times a model's bytes: weights, gradients and two moments of Adam
COPYING = 0.5  # of the loop's computing at most: one profiled step tells it, and steps differ (ours)
COPIES = frozenset("copy_ cat all_gather_copy_in split_with_sizes_copy chunk_cat".split())

KEPT = "fully_shard(module, reshard_after_forward=False)   # FSDP1: ShardingStrategy.SHARD_GRAD_OP"
HALVED = """\
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
fully_shard(module, mp_policy=policy)   # FSDP1: MixedPrecision(...)"""
DDP = "model = torch.nn.parallel.DistributedDataParallel(model)"
STAGE_0 = '"zero_optimization": {"stage": 0}'


def cures(
    diagnosis: Diagnosis, scenario: Scenario, model: Parallel, place: Location | None
) -> list[Proposal]:
    """Those of which something is left to gain, without the order."""
    gathered = sum(share for name, share in kinds_of(diagnosis).items() if name.startswith("all_gather"))
    groups, again = (int(model.arguments.get(name, 0)) for name in ("groups", "resharded"))
    found = []
    if model.kind == "fsdp" and again and gathered > 0:
        twice = gathered * again / (groups + again)  # of all gathers those of the backward pass
        found.append(_once(diagnosis, twice, place))
    if model.kind == "fsdp" and "bfloat16" not in model.arguments.get("param_dtype", ""):
        found.append(_halved(diagnosis, scenario, place))
    memory = diagnosis.profile.machine.memory_bytes
    taken = STATES * model.gradient_bytes * diagnosis.host.trainers
    divided = model.arguments.get("stage") != "0"
    if divided and memory and not diagnosis.host.accelerated and taken < ROOM * memory:
        found.append(_whole(diagnosis, scenario, model.kind == "zero", place))
    return found


def copying_left(diagnosis: Diagnosis, left: float) -> float:
    """What is left of the loop's computing, if so much is left of copying into and out of exchanges."""
    compute = mean_of(diagnosis, "compute")
    copied = sum(one.self_cpu_s for one in operators(diagnosis, COPIES.__contains__))
    return 1 - (1 - left) * min(COPYING, copied / compute) if compute > 0 else 1.0


def _once(diagnosis: Diagnosis, twice: float, place: Location | None) -> Proposal:
    left = 1 - twice
    return Proposal(
        id="fsdp-no-reshard",
        title="gather parameters once a step: keep them from the forward to the backward pass",
        fix=Fix("do not shard them again after the forward pass", KEPT, place),
        change=Change(comm=left, compute=copying_left(diagnosis, left)),
        risk="each rank holds all parameters between the two passes",
    )


def _halved(diagnosis: Diagnosis, scenario: Scenario, place: Location | None) -> Proposal:
    most = gain(scenario, Change(comm=0.5, compute=min(0.5, copying_left(diagnosis, 0.5))))
    return Proposal(
        id="fsdp-mixed-precision",
        title="gather parameters and reduce gradients in bfloat16",
        fix=Fix("half the bytes; each rank keeps its part in float32", HALVED, place),
        factor=(1.0, most**0.5, most),
        most=most,
        basis="bound",
        risk="computing and sums of gradients are rounded to bfloat16",
    )


def _whole(diagnosis: Diagnosis, scenario: Scenario, zero: bool, place: Location | None) -> Proposal:
    most = gain(scenario, Change(comm=0.0, compute=copying_left(diagnosis, 0.0)))
    return Proposal(
        id="zero-stage-0" if zero else "ddp-instead",
        title="keep all parameters and the optimizer's whole state on each rank: they fit"
        if zero
        else "keep the whole model on each rank: it fits, and only gradients are exchanged, while computing",
        fix=Fix("in DeepSpeed's configuration", STAGE_0, place)
        if zero
        else Fix("in place of FSDP", DDP, place),
        factor=(1.0, most**0.5, most),
        most=most,
        basis="bound",
        risk="each rank holds all parameters, gradients and the optimizer's state",
    )
