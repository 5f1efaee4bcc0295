"""Exchanges between ranks: how long they take, and remedies for those of a sharded model (FSDP, ZeRO)."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from ..analyse.predict import gain
from ..analyse.ranks import Balance, compare, world_size
from ..analyse.shares import MOST
from ..model.code import Location
from ..model.diagnosis import Change, Diagnosis, Proposal, Scenario
from ..model.loops import Parallel, Passes
from ..model.report import Evidence, Fix
from .facts import WAIT_SHARE, operations_of, operators
from .registry import snippet

STATES = 4  # times a model's bytes: weights, gradients and two moments of Adam
COPIES = frozenset("copy_ cat all_gather_copy_in split_with_sizes_copy chunk_cat".split())
GATHER_ONCE = Proposal(
    id="fsdp-no-reshard",
    title="gather parameters once a step: keep them from the forward to the backward pass",
    fix=Fix("FSDP1: ShardingStrategy.SHARD_GRAD_OP", "fully_shard(MODULE, reshard_after_forward=False)"),
    risk="each rank holds all parameters between the two passes",
)
GATHER_HALF = Proposal(
    id="fsdp-mixed-precision",
    title="gather parameters and reduce gradients in bfloat16",
    fix=Fix("half the bytes; each rank keeps its part in float32", snippet("ranks", "HALVED")),
    basis="bound",
    risk="computing and sums of gradients are rounded to bfloat16",
)
KEEP_WHOLE = Proposal(
    id="ddp-instead",
    title="keep the whole model on each rank: it fits, and only gradients are exchanged, while computing",
    fix=Fix("in place of FSDP", "MODEL = torch.nn.parallel.DistributedDataParallel(MODEL)"),
    basis="bound",
    risk="each rank holds all parameters, gradients and the optimizer's state",
)
STAGE_0 = replace(
    KEEP_WHOLE,
    id="zero-stage-0",
    title="keep all parameters and the optimizer's whole state on each rank: they fit",
    fix=Fix("in DeepSpeed's configuration", 'CONFIG["zero_optimization"] = {"stage": 0}'),
)
UNSHARDED = (GATHER_ONCE, GATHER_HALF, KEEP_WHOLE, STAGE_0)


def unsharded(
    diagnosis: Diagnosis, scenario: Scenario, model: Parallel, place: Location | None
) -> list[Proposal]:
    """Remedies that make the exchanges of a sharded model fewer or smaller."""
    gathered = sum(share for name, share in kinds_of(diagnosis).items() if name.startswith("all_gather"))
    groups, again = (int(model.arguments.get(name, 0)) for name in ("groups", "resharded"))
    found = []
    if model.kind == "fsdp" and again and gathered > 0:
        left = 1 - gathered * again / (groups + again)  # the gathers of the backward pass are gone
        change = Change(comm=left, compute=copying_left(diagnosis, left))
        found.append(replace(GATHER_ONCE.at(place), change=change))
    if model.kind == "fsdp" and "bfloat16" not in model.arguments.get("param_dtype", ""):
        half = Change(comm=0.5, compute=min(0.5, copying_left(diagnosis, 0.5)))
        found.append(_at_most(GATHER_HALF.at(place), gain(scenario, half)))
    memory = diagnosis.profile.machine.memory_bytes
    taken = STATES * model.gradient_bytes * diagnosis.host.trainers
    divided = model.arguments.get("stage") != "0"
    if divided and memory and not diagnosis.host.accelerated and taken < MOST * memory:
        none = Change(comm=0.0, compute=copying_left(diagnosis, 0.0))
        whole = STAGE_0 if model.kind == "zero" else KEEP_WHOLE
        found.append(_at_most(whole.at(place), gain(scenario, none)))
    return found


def _at_most(remedy: Proposal, most: float) -> Proposal:
    """The remedy with a range from no gain to ``most``; the likely gain is its square root."""
    return replace(remedy, factor=(1.0, most**0.5, most), most=most)


def copying_left(diagnosis: Diagnosis, left: float) -> float:
    """Share of the loop's computing that is left if ``left`` of the copying for exchanges is."""
    compute = mean_of(diagnosis, "compute")
    copied = sum(one.self_cpu_s for one in operators(diagnosis, COPIES.__contains__))
    return 1 - (1 - left) * min(MOST, copied / compute) if compute > 0 else 1.0


TIMED = "hook on the backward pass, schedstat"
BUILT = "hook on DistributedDataParallel"
SHARDED = "hook on the sharding call"
COMPARED = "exchanges of all ranks, step by step"


def pid_of(diagnosis: Diagnosis) -> int | None:
    """The process that the diagnosis is about."""
    return diagnosis.loop.pid if diagnosis.loop is not None else None


def wrapped(diagnosis: Diagnosis, kind: str = "ddp") -> Parallel | None:
    """The wrapped model of that process with the most gradient bytes."""
    pid = pid_of(diagnosis)
    mine = [one for one in diagnosis.profile.ranks.parallel if one.pid == pid and one.kind == kind]
    return max(mine, key=lambda one: one.gradient_bytes, default=None)


def sharded(diagnosis: Diagnosis) -> Parallel | None:
    """The sharded model (FSDP or ZeRO) of that process."""
    return wrapped(diagnosis, "fsdp") or wrapped(diagnosis, "zero")


def passes_of(diagnosis: Diagnosis, shared: bool) -> Passes | None:
    """The backward passes of that process which exchanged gradients, or which did not."""
    pid = pid_of(diagnosis)
    found = (one for one in diagnosis.profile.ranks.passes if one.pid == pid and one.shared == shared)
    return next(found, None)


def alone(diagnosis: Diagnosis) -> bool:
    """Whether the run has one rank and no wrapped model, so that there are no exchanges."""
    ranks = diagnosis.profile.ranks
    return world_size(diagnosis.profile) < 2 and not ranks.parallel


def untimed(diagnosis: Diagnosis) -> str | None:
    """What is missing if no exchange was timed: the accelerator may run it without the training thread."""
    if diagnosis.scenario is None:
        return "steps of a training loop"
    timed = passes_of(diagnosis, True) is not None or turn_share(diagnosis, "comm", "straggler") > 0
    return None if timed else "exchanges that the training thread waits for"


def turn_share(diagnosis: Diagnosis, *parts: str) -> float:
    """The share of the step that parts of the loop's turn take."""
    return mean_of(diagnosis, *parts) / diagnosis.step_s if diagnosis.step_s > 0 else 0.0


def mean_of(diagnosis: Diagnosis, *parts: str) -> float:
    """Seconds of parts of the loop's turn, per step."""
    costs = diagnosis.scenario.costs if diagnosis.scenario is not None else ()
    return fmean(sum(getattr(cost, part) for part in parts) for cost in costs) if costs else 0.0


def line_of(diagnosis: Diagnosis) -> Location | None:
    """The line that wraps the model; else the one whose collectives take longest."""
    model = wrapped(diagnosis) or sharded(diagnosis)
    if model is not None and model.file:
        return Location(model.file, model.line, model.function)
    calls = operations_of(diagnosis, "exchange")
    return calls[0].location if calls else None


def exchange_evidence(diagnosis: Diagnosis) -> list[Evidence]:
    """What is exchanged, and how long a rank waits for it."""
    model, passes = wrapped(diagnosis), passes_of(diagnosis, True)
    balance = compare(diagnosis.profile)
    source, share = compared(balance), turn_share(diagnosis, "comm")
    what = "share of the step in exchanges, of the rank that waits least"
    said, divided = [Evidence(what, "exchange_share", share, source)], sharded(diagnosis)
    if divided is not None:
        for name, part in sorted(kinds_of(diagnosis).items(), key=lambda one: -one[1]):
            text = f"of the time in exchanges, {name}"
            said += [Evidence(text, "collective_share", part, "hooks on collectives")] * (part >= WAIT_SHARE)
    if balance is None and (missing := rank_missing(diagnosis)):
        what = "share of the step that this rank waits in exchanges, or for ranks not measured"
        said[0] = Evidence(what, "exchange_share", share, TIMED)
        said.append(Evidence("ranks not measured", "ranks_unseen", float(missing), "world size"))
    else:
        what = "share of the step that this rank waits for slower ranks"
        said.append(Evidence(what, "straggler_share", turn_share(diagnosis, "straggler"), source))
    if passes is not None:
        what = "time asleep after a pass's own gradients are finished"
        said.append(Evidence(what, "exchange_s", passes.exchange_s, TIMED))
    if divided is not None:
        stage = divided.arguments.get("stage")
        what = f"ZeRO stage {stage}" if stage else "each rank has a part"
        size = float(divided.gradient_bytes)
        said.append(Evidence(f"parameters of the model ({what})", "gradient_bytes", size, SHARDED))
    if model is not None:
        said.append(Evidence("gradients of one pass", "gradient_bytes", float(model.gradient_bytes), BUILT))
    for call in operations_of(diagnosis, "exchange")[:1]:
        where = f"{call.location.file}:{call.location.line}" if call.location else "an unknown line"
        named = f"{call.name} for module {call.module}" if call.module else call.name
        each_s = call.total_s / max(1, call.count)
        said.append(Evidence(f"time of each {named} at {where}", "collective_s", each_s, "hook on it"))
    return said


def compared(balance: Balance | None) -> str:
    """The source of the evidence on which rank waits for which."""
    return COMPARED if balance is None or balance.slowest is not None else "profiled steps of all ranks"


def kinds_of(diagnosis: Diagnosis) -> dict[str, float]:
    """The share of each collective in the time that the loop's thread spends in all of them."""
    calls = operations_of(diagnosis, "exchange")
    whole = sum(one.total_s for one in calls)
    shares: dict[str, float] = {}
    for one in calls:
        shares[one.name] = shares.get(one.name, 0.0) + one.total_s / max(whole, 1e-12)
    return shares


def rank_missing(diagnosis: Diagnosis) -> int:
    """Number of ranks that were not measured, usually on other machines."""
    balance = compare(diagnosis.profile)
    return balance.missing if balance is not None else max(0, world_size(diagnosis.profile) - 1)


def apart(diagnosis: Diagnosis) -> bool:
    """Whether ranks run on other machines: their profiles say so, or some ranks were not measured."""
    here = diagnosis.profile.machine.host
    return rank_missing(diagnosis) > 0 or any(one.host != here for one in diagnosis.profile.elsewhere)
