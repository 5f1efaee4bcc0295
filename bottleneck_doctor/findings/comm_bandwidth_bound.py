"""Ranks wait for exchanges between them, which computing does not hide.

## What it means
Each rank finishes its own gradients and then sleeps until the sums over all ranks have arrived. Of a sharded
model (FSDP, stage 3 of ZeRO) it sleeps until a module's parameters are gathered, too.

## Why it costs
Gradients travel while the backward pass still computes, bucket by bucket; what is not through when it ends
is waited for. With n ranks each one sends and receives 2 (n - 1) / n times the bytes of all gradients. A
sharded model gathers its parameters for the forward pass, again for the backward pass, and scatters the sums
of its gradients: 3 (n - 1) / n times its bytes; on the host's own cores nothing is computed meanwhile.

## How it is measured
A callback of the autograd engine marks the instant at which a rank's own gradients are finished. What its
thread sleeps from there to the end of the pass, and in collectives that the loop calls itself, is waiting.
The rank that waits least in a step waits for the exchange alone; only that is counted here.

## Thresholds
A tenth of the step [TensorBoard plugin of the PyTorch profiler], and a gain of 3 % without it by replay.

## When this advice is wrong
Where ranks on other machines were not seen, part of it may be waiting for a slow one of them. Larger batches
change what is learned per step: the learning rate has to follow, and small data sets suffer. That is another
training, so `bdoc prove` does not try it.

## Prediction
Exchanging every second time halves it, and optimizer steps with it, by replay. Gradients of half the width
halve what the link carries; no gain is the lower end, since packing them costs CPU (measured: nothing gained
between two ranks of one machine, so it is not offered there). A link ten times as fast leaves a tenth at
best.

## References
Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020; NVIDIA, nccl-
tests, "Performance reported by NCCL tests"; torch.distributed, "Which backend to use?".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.predict import WORTH
from ..analyse.ranks import compare, rank_steps
from ..model.code import Location
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal, Scenario, StepCost
from ..model.instruments import Operation
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.advice import PAYS, spread, step_share
from .parts.entry import Case, Entry, given
from .parts.ranks import (
    GATHER_HALF,
    GATHER_ONCE,
    KEEP_WHOLE,
    MODEL,
    STAGE_0,
    alone,
    apart,
    copying_left,
    exchange_evidence,
    kinds_of,
    line_of,
    mean_of,
    pair,
    passes_of,
    rank_missing,
    sharded,
    share_of,
    unsharded,
    untimed,
    wrapped,
)

ID = "comm-bandwidth-bound"
SHARE = 0.1  # of the step [TensorBoard plugin of the PyTorch profiler; catalogue F52]
MOSTLY = 0.5  # of the time in exchanges is the loop's own all_reduce (ours)
EVERY_SECOND = 0.5  # of the exchanges are left
PACKED = (1.0, 0.5, 0.5)  # of the exchange is left with gradients of half the width (ours; measured: 1.0)
FASTER = (0.5, 0.2, 0.1)  # of it on a link of ten times the speed (ours: latency and the last bucket stay)

EVERY_OTHER = """\
for place, (x, y) in enumerate(loader):            # exchange after every second batch
    last = place % 2 == 1
    with contextlib.nullcontext() if last else model.no_sync():
        (loss_fn(model(x), y) / 2).backward()      # forward pass inside the context, too
    if last:
        optimizer.step()
        optimizer.zero_grad()"""
BATCH = "DataLoader(dataset, batch_size=2 * batch_size, ...)"
MICRO_BATCH = '"train_micro_batch_size_per_gpu": 2 * batch_size    # in DeepSpeed\'s configuration'
HOOK = """\
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
model.register_comm_hook(None, default_hooks.{})"""

SELDOM = Proposal(
    id="bigger-batch",
    title="exchange gradients half as often: a batch twice as large, or two batches per exchange",
    fix=Fix("double batch_size, or let gradients of two batches add up", EVERY_OTHER),
    risk="each optimizer step sees twice the samples: the learning rate has to follow",
)
DOUBLE = replace(
    SELDOM, title="exchange half as often: a batch twice as large", fix=Fix("double the batch", BATCH)
)
PACK = Proposal(
    id="grad-compress",
    title="send gradients in half the width",
    fix=Fix("register it right after the model is wrapped", HOOK.format("bf16_compress_hook")),
    apply="hook~",
    risk="gradients are rounded; half precision overflows where bfloat16 does not",
    basis="bound",
    treatments=(Treatment("ddp", {"hook": "bf16_compress_hook"}),),
)
NCCL = Proposal(
    id="nccl-backend",
    title="exchange gradients on the devices themselves",
    fix=Fix("gloo copies them through the host's memory", 'torch.distributed.init_process_group("nccl")'),
    basis="bound",
)
FASTER_NETWORK = Proposal(
    id="faster-network",
    title="link the machines ten times as fast",
    fix=Fix(
        "10 or 100 Gbit/s Ethernet or InfiniBand between the machines; name it to the backend",
        "NCCL_SOCKET_IFNAME=eth1 GLOO_SOCKET_IFNAME=eth1 torchrun ... train.py",
    ),
    apply="admin",
    effort="days",
    basis="bound",
)
ONE_MACHINE = Proposal(
    id="single-node",
    title="train on one machine, where ranks reach each other through memory",
    fix=Fix(
        "use all devices of one machine before a second one",
        "torchrun --standalone --nproc_per_node=8 train.py",
    ),
    apply="admin",
    effort="hours",
    risk="fewer devices compute",
    basis="bound",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when even the rank that waits least sleeps a tenth of the step in exchanges."""
    if alone(diagnosis):
        return None
    if missing := untimed(diagnosis, ID):
        return missing
    pays = diagnosis.causes.get("comm.allreduce", 1.0) >= max(WORTH, PAYS)
    if share_of(diagnosis, "comm") < SHARE or not pays:
        return None
    evidence = exchange_evidence(diagnosis)
    if compare(diagnosis.profile) is not None and rank_missing(diagnosis):
        evidence.append(Evidence("ranks whose waits were not seen: some of this may be waiting for them",
                                 "ranks_unseen", float(rank_missing(diagnosis)), "world size"))  # fmt: skip
    proposals = _proposals(diagnosis, given(diagnosis.scenario))
    return Finding(ID, "comm.allreduce", evidence, proposals, line_of(diagnosis))


def _proposals(diagnosis: Diagnosis, scenario: Scenario) -> list[Proposal]:
    model, place = wrapped(diagnosis), line_of(diagnosis)
    divided = sharded(diagnosis)
    proposals = []
    if divided is not None:
        code = MICRO_BATCH if divided.kind == "zero" else BATCH
        proposals += [_doubled(diagnosis, code, place), *unsharded(diagnosis, scenario, divided, place)]
    elif model is None and kinds_of(diagnosis).get("all_reduce", 0.0) >= MOSTLY:
        proposals.append(_doubled(diagnosis, BATCH, place))
    if model is not None:
        proposals.append(_seldom(diagnosis, place))
        far = apart(diagnosis)
        if (far or model.backend == "nccl") and not model.comm_hook:
            hook = "bf16_compress_hook" if model.backend == "nccl" else "fp16_compress_hook"
            packed = replace(
                PACK.at(place, HOOK.format(hook)), treatments=(Treatment("ddp", {"hook": hook}),)
            )
            proposals.append(_exchanging(scenario, packed, PACKED))
        if far:
            proposals += [_exchanging(scenario, one, FASTER) for one in (FASTER_NETWORK, ONE_MACHINE)]
        if model.backend == "gloo" and diagnosis.host.accelerated:
            proposals.append(_exchanging(scenario, NCCL, FASTER))
    return proposals


def _seldom(diagnosis: Diagnosis, place: Location | None) -> Proposal:
    """Per batch, half the exchanges are left, half the copying after them, and half the optimizer steps."""
    passes = passes_of(diagnosis, True)
    spared = step_share(diagnosis, "optimizer") * diagnosis.step_s
    spared += passes.exchange_cpu_s if passes is not None else 0.0
    compute = max(mean_of(diagnosis, "compute"), spared, 1e-12)
    change = Change(comm=EVERY_SECOND, compute=1 - (1 - EVERY_SECOND) * spared / compute)
    return replace(SELDOM.at(place), change=change)


def _doubled(diagnosis: Diagnosis, code: str, place: Location | None) -> Proposal:
    """Per sample, half the exchanges are left, half the copying for them, and half the optimizer steps."""
    stepping = step_share(diagnosis, "optimizer") * diagnosis.step_s
    compute = max(mean_of(diagnosis, "compute"), stepping, 1e-12)
    left = copying_left(diagnosis, EVERY_SECOND) - (1 - EVERY_SECOND) * stepping / compute
    return replace(DOUBLE.at(place, code), change=Change(comm=EVERY_SECOND, compute=max(0.0, left)))


def _exchanging(scenario: Scenario, remedy: Proposal, left: tuple[float, float, float]) -> Proposal:
    """The remedy, if so much of the exchange is left."""
    factor = spread(scenario, *(Change(comm=one) for one in left))
    return replace(remedy, factor=factor, most=gain(scenario, Change(comm=0.0)))


MODEL_LINE = Location("train.py", 12, "main")
SICK, WELL = StepCost(0.01, comm=0.008), StepCost(0.03, comm=0.001)


def _asleep_in_collectives() -> Diagnosis:
    """The loop adds up its gradients with calls of its own."""
    return pair(SICK, model=None, passes=())


def _unheard() -> Diagnosis:
    """DistributedDataParallel, but nothing that the training thread waits for: an accelerator's own queue."""
    return pair(StepCost(0.0, 0.02), passes=())


FSDP = {"groups": "7", "resharded": "7", "param_dtype": "None", "reduce_dtype": "None"}


def _sharded(kind: str, arguments: dict[str, str]) -> Diagnosis:
    """Seven modules whose parameters are gathered for each pass."""
    sick = pair(SICK, model=replace(MODEL, kind=kind, arguments=arguments), passes=())
    calls = [
        Operation("exchange", 1, 0, name, 400, taken, 0.1, 0.01, MODEL_LINE, module="layers.3")
        for name, taken in (("all_gather_single", 2.2), ("reduce_scatter_single", 1.0))
    ]
    machine = replace(sick.profile.machine, memory_bytes=16 << 30)
    return replace(sick, profile=replace(sick.profile, operations=calls, machine=machine))


def _many(backend: str) -> Diagnosis:
    return pair(SICK, model=replace(MODEL, backend=backend), world=8)


def _merged() -> Diagnosis:
    """Two ranks, each watched by a run on its own machine."""
    sick = pair(SICK)
    first, second = sick.profile.loops
    elsewhere = [replace(rank_steps(sick.profile, second), host="another")]
    return replace(sick, profile=replace(sick.profile, loops=[first], elsewhere=elsewhere))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case("two ranks of one machine", pair(SICK), "fires", "bigger-batch"),
        Case("six more ranks on other machines", _many("gloo"), "fires", "faster-network"),
        Case("the same over nccl", _many("nccl"), "fires", "grad-compress"),
        Case("a rank on another machine, which another run saw", _merged(), "fires", "faster-network"),
        Case("the loop's own all_reduce", _asleep_in_collectives(), "fires"),
        Case("the backward pass hides it", pair(WELL), "silent"),
        Case("the waiting is for a slow rank", pair(StepCost(0.01, straggler=0.01), 0.01), "silent"),
        Case("a sharded model", _sharded("fsdp", FSDP), "fires", "fsdp-no-reshard"),
        Case("DeepSpeed's ZeRO", _sharded("zero", {"stage": "3"}), "fires", "zero-stage-0"),
        Case("no exchange was timed", _unheard(), "abstains"),
    )


FINDING = Entry(
    ID, "comm.allreduce", examine,
    remedies=(SELDOM, GATHER_ONCE, GATHER_HALF, KEEP_WHOLE, STAGE_0, PACK, NCCL, FASTER_NETWORK, ONE_MACHINE),
)  # fmt: skip
