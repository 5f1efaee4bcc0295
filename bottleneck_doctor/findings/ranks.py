"""Training on several ranks or devices: slow ranks, the exchange of gradients, settings of DDP."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from statistics import fmean

from ..analyse.loop_parts import training_samples
from ..analyse.metrics import slow_devices
from ..analyse.predict import TRIFLE
from ..analyse.ranks import Balance, all_ranks, compare, longest_loops, slow_ranks
from ..analyse.shares import ALL_BUT_NOISE, MOST, NOTICED
from ..analyse.steps import SAMPLES_AT_LEAST, mean_in
from ..model.code import Location
from ..model.diagnosis import Change, Diagnosis, Finding, Proposal, Scenario
from ..model.loops import LATE_FOR, RankSteps
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .exchanges import (
    BUILT,
    COMPARED,
    TIMED,
    UNSHARDED,
    alone,
    apart,
    compared,
    copying_left,
    exchange_evidence,
    kinds_of,
    line_of,
    mean_of,
    passes_of,
    pid_of,
    rank_missing,
    sharded,
    turn_share,
    unsharded,
    untimed,
    wrapped,
)
from .facts import DRIVER, FOREIGN_CORES, PAYS, WAIT_SHARE, operations_of, step_share
from .lines import STACKS
from .registry import finding, given, snippet
from .remedies import COOL, MOSTLY, each, in_framework, priced

# rank-straggler
UNEVEN = 1.1  # slowest rank's own time over the mean one's (chosen)
SAME = 0.6  # of the steps in which one rank is the slowest: it is that rank (chosen)
LATE_AT_MOST = 4  # lines of evidence
ALONE, SPARED = NOTICED, 1 - ALL_BUT_NOISE  # of a rank's samples in one call: it works for all; it does not
WRITING = ("checkpoint", "logging")
EQUAL = snippet("ranks", "EQUAL")
BALANCE = Proposal(
    id="balance-ranks",
    title="give every rank the same amount of work",
    fix=Fix("share samples out by cost; look at what the slowest rank does alone", EQUAL),
    effort="hours",
    risk="a rank on a slower machine needs fewer samples, not as many",
)
PARTED = snippet("ranks", "PARTED")
ALIKE = snippet("ranks", "ALIKE")
BUCKET = Proposal(
    id="bucket-by-cost",
    title="let all ranks take batches of like cost in the same step",
    fix=Fix("group samples by length or size before they are shared out", ALIKE),
    effort="hours",
    risk="batches are less mixed than in a plain shuffle",
)


@finding("comm.straggler", BALANCE, BUCKET, COOL)
def rank_straggler(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when ranks wait in exchanges for slower ranks, whose own work takes longer."""
    if alone(diagnosis):
        return None
    balance = compare(diagnosis.profile)
    if diagnosis.scenario is None or balance is None:
        return "what two or more ranks sleep in exchanges, step by step"
    waiting, place = fmean(balance.behind.values()), line_of(diagnosis)
    uneven = balance.uneven >= UNEVEN and waiting >= WAIT_SHARE * diagnosis.step_s
    steady = balance.slowest is None or balance.slowest >= SAME
    call = _alone_in(diagnosis, balance) if uneven else None
    # late in turn for lack of cores, not because of their batches
    foreign = (diagnosis.host.foreign_cores or 0.0) > FOREIGN_CORES
    crowded = foreign or balance.queued > WAIT_SHARE * diagnosis.step_s
    if not uneven or (not steady and call is None and crowded):
        late = _late(diagnosis) if diagnosis.profile.elsewhere else []  # the report is about one node
        return Finding("rank-straggler", "comm.straggler", late, [], place) if late else None
    evidence = _evidence(diagnosis, balance)
    slowest = max(balance.busy, key=balance.busy.__getitem__)
    held = [one for one in slow_devices(diagnosis.profile, diagnosis.steps) if one.pid == slowest]
    if held:  # less work is no remedy for a device that runs below its clock
        evidence.insert(0, Evidence(held[0].text, "slow_clock_share", held[0].clock, DRIVER))
        cool = replace(
            COOL, title=f"cool {held[0].name}, or give it the power it was built for", basis="bound"
        )
        gone = Change(straggler=0.0)
        cool = priced(cool, diagnosis.scenario, Change(), Change(straggler=MOST), gone, most=gone)
        return Finding("rank-straggler", "comm.straggler", evidence, [cool], place)
    if call is not None:
        place, share = call
        text = f"share of the slowest rank's samples in {place.function}, which the fastest rank spares"
        evidence.insert(1, Evidence(text, "alone_share", share, STACKS))
    proposals = _straggler_proposals(diagnosis, balance, steady, call)
    return Finding("rank-straggler", "comm.straggler", evidence, proposals, place)


def _alone_in(diagnosis: Diagnosis, balance: Balance) -> tuple[Location, float] | None:
    """The user's function, called by the loop, in which only the slowest rank computes, and its share."""
    slow, fast = (pick(balance.busy, key=lambda pid: balance.busy[pid]) for pick in (max, min))
    mine, others = (_computing(diagnosis, pid) for pid in (slow, fast))
    if mine is None or others is None:
        return None
    only = {place: share for place, share in mine.items() if others.get(place, 0.0) <= SPARED * share}
    best = max(only, key=lambda place: only[place], default=None)
    return (best, only[best]) if best is not None and only[best] >= ALONE else None


def _computing(diagnosis: Diagnosis, pid: int) -> dict[Location, float] | None:
    """Share of a rank's samples computing in each function that its loop calls, without checkpoints and logs,
    which one rank writes by design; None if there are too few samples."""
    loop = longest_loops(diagnosis.profile).get(pid)
    samples = training_samples(diagnosis.profile, pid, loop.body) if loop and loop.body else []
    total, found = sum(one.stack.count for one in samples), Counter[Location]()
    if total < SAMPLES_AT_LEAST:
        return None
    for one in samples:
        if one.called is not None and one.part not in WRITING:
            place = replace(one.called, line=one.line or one.called.line)
            found[place] += min(one.stack.count, one.stack.running or 0)
    return {place: count / total for place, count in found.items()}


def _evidence(diagnosis: Diagnosis, balance: Balance) -> list[Evidence]:
    names = {one.pid: f"rank {one.rank}" for one in diagnosis.profile.processes if one.rank is not None}
    names |= {one.pid: _name(one, diagnosis) for one in all_ranks(diagnosis.profile)}
    ranked = sorted(balance.busy, key=lambda pid: -balance.busy[pid])
    source, said = compared(balance), []
    for which, pid in (("slowest", ranked[0]), ("fastest", ranked[-1])):
        text = f"own time per step of the {which} rank ({names.get(pid, f'process {pid}')})"
        said.append(Evidence(text, f"{which}_rank_s", balance.busy[pid], source))
    if balance.slowest is not None:
        text = "share of steps in which the same rank is the slowest"
        said.append(Evidence(text, "slowest_rank_share", balance.slowest, source))
    return [*_late(diagnosis), *said, *exchange_evidence(diagnosis)]


def _name(one: RankSteps, diagnosis: Diagnosis) -> str:
    named = f"process {one.pid}" if one.rank is None else f"rank {one.rank}"
    return f"{named} on {one.host}" if diagnosis.profile.elsewhere else named


def _late(diagnosis: Diagnosis) -> list[Evidence]:
    """Ranks that are late in most steps, and what they spend the time on."""
    said = []
    for one in (slow_ranks(all_ranks(diagnosis.profile)) or [])[:LATE_AT_MOST]:
        name, reason = _name(one.rank, diagnosis), LATE_FOR[one.cause]
        text = f"time by which {name} comes after the median rank, mostly {reason}"
        said.append(Evidence(text, "late_rank_s", one.beyond_s, COMPARED))
    return said


def _straggler_proposals(
    diagnosis: Diagnosis, balance: Balance, steady: bool, call: tuple[Location, float] | None
) -> list[Proposal]:
    """Remedies for a rank that waits for slower ones, or for the slowest rank if its data takes longer."""
    mine = balance.behind.get(pid_of(diagnosis) or 0, 0.0)
    if mine <= 0 or turn_share(diagnosis, "straggler") <= 0:
        return _less_data(diagnosis, balance)
    remedy = (BALANCE if steady else BUCKET).at(line_of(diagnosis))
    if call is not None:
        place, name = call[0], call[0].function
        text = f"let each rank do its part of {name}, which one does while all others wait"
        parted = PARTED.format(call=name.rpartition(".")[2])
        remedy = replace(BALANCE.at(place, parted, text), risk="none")
    return [replace(remedy, change=Change(straggler=max(0.0, 1 - fmean(balance.behind.values()) / mine)))]


def _less_data(diagnosis: Diagnosis, balance: Balance) -> list[Proposal]:
    """The remedy for the rank that is last because of its data: as little to load as the mean rank. None if
    ranks run on several machines, since a slower machine may be the reason."""
    pid, wait_s = pid_of(diagnosis), mean_in(diagnosis.steps, "wait")
    late = next(iter(slow_ranks(all_ranks(diagnosis.profile)) or ()), None)
    if late is None or late.rank.pid != pid or late.cause != "data":
        return []
    if wait_s <= 0 or diagnosis.profile.elsewhere:
        return []
    left = max(0.0, 1 - (balance.busy[pid] - fmean(balance.busy.values())) / wait_s)
    change = Change(cpu=left, collate=left, storage=left, network=left, wait=left)
    return [replace(BALANCE.at(line_of(diagnosis)), change=change)]


# comm-bandwidth-bound
EVERY_SECOND = 0.5  # of the exchanges are left
PACKED = (1.0, 0.5, 0.5)  # of the exchange, with gradients of half the width (measured: nothing gained)
ACCUMULATE = snippet("ranks", "ACCUMULATE")
BATCH = "DataLoader(..., batch_size=2 * BATCH_SIZE)"
MICRO_BATCH = 'CONFIG["train_micro_batch_size_per_gpu"] *= 2  # of DeepSpeed'
HOOK = snippet("ranks", "HOOK")
SELDOM = Proposal(
    id="bigger-batch",
    title="exchange gradients half as often: a batch twice as large, or two batches per exchange",
    fix=Fix("double batch_size, or let gradients of two batches add up", ACCUMULATE.format(k=2)),
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
BUFFERS = Proposal(
    id="ddp-local-buffers",
    title="do not broadcast the model's buffers in each forward pass",
    fix=Fix(
        "where the model is wrapped",
        "# from torch 2.13 on: forward_sync_buffers=False\n"
        "DistributedDataParallel(MODEL, broadcast_buffers=False)",
    ),
    risk="running statistics of batch norm differ between ranks; constants, such as masks, do not",
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
        "10 or 100 Gbit/s, named to the backend",
        "NCCL_SOCKET_IFNAME=eth1 torchrun ...    # GLOO_SOCKET_IFNAME",
    ),
    apply="admin",
    effort="days",
    basis="bound",
)
ONE_MACHINE = Proposal(
    id="single-node",
    title="train on one machine, where ranks reach each other through memory",
    fix=Fix("all devices of one machine first", "torchrun --standalone --nproc_per_node=8 train.py"),
    apply="admin",
    effort="hours",
    risk="fewer devices compute",
    basis="bound",
)


@finding("comm.allreduce", BUFFERS, SELDOM, PACK, NCCL, FASTER_NETWORK, ONE_MACHINE, *UNSHARDED)
def comm_bandwidth_bound(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when even the rank that waits least sleeps a tenth of the step in exchanges."""
    if alone(diagnosis):
        return None
    if missing := untimed(diagnosis):
        return missing
    if turn_share(diagnosis, "comm") < NOTICED or diagnosis.causes.get("comm.allreduce", 1.0) < PAYS:
        return None
    evidence, missing_ranks = exchange_evidence(diagnosis), rank_missing(diagnosis)
    if missing_ranks and compare(diagnosis.profile) is not None:
        text = "ranks not measured: part of this wait may be for them"
        evidence.append(Evidence(text, "ranks_unseen", float(missing_ranks), "world size"))
    proposals = _comm_proposals(diagnosis, given(diagnosis.scenario))
    return Finding("comm-bandwidth-bound", "comm.allreduce", evidence, proposals, line_of(diagnosis))


def _comm_proposals(diagnosis: Diagnosis, scenario: Scenario) -> list[Proposal]:
    model, place = wrapped(diagnosis), line_of(diagnosis)
    divided = sharded(diagnosis)
    proposals = []
    if divided is not None:
        code = MICRO_BATCH if divided.kind == "zero" else BATCH
        proposals += [_doubled(diagnosis, code, place), *unsharded(diagnosis, scenario, divided, place)]
    elif model is None and kinds_of(diagnosis).get("all_reduce", 0.0) >= MOST:
        proposals.append(_doubled(diagnosis, BATCH, place))
    if model is not None:
        if (sent := _buffers_share(diagnosis)) >= NOTICED:
            proposals.append(replace(BUFFERS.at(place), change=Change(comm=1 - sent)))
        proposals.append(_seldom(diagnosis, place))
        far = apart(diagnosis)
        if (far or model.backend == "nccl") and not model.comm_hook:
            hook = "bf16_compress_hook" if model.backend == "nccl" else "fp16_compress_hook"
            treatments = (Treatment("ddp", {"hook": hook}),)
            packed = replace(PACK.at(place, HOOK.format(hook)), treatments=treatments)
            proposals.append(priced(packed, scenario, *each(comm=PACKED), most=Change(comm=0.0)))
        links = [FASTER_NETWORK, ONE_MACHINE] if far else []
        links += [NCCL] if model.backend == "gloo" and diagnosis.host.accelerated else []
        faster = each(comm=MOSTLY)
        proposals += [priced(one, scenario, *faster, most=Change(comm=0.0)) for one in links]
    return proposals


def _buffers_share(diagnosis: Diagnosis) -> float:
    """The share of the exchange in which DDP broadcasts buffers, before forward passes; 0 where it does so
    less often than gradients are exchanged."""
    passes = passes_of(diagnosis, True)
    calls = [one for one in operations_of(diagnosis, "exchange") if one.name == "broadcast"]
    if passes is None or sum(one.count for one in calls) < MOST * passes.count:
        return 0.0
    each_s = sum(one.total_s for one in calls) / sum(one.count for one in calls)
    return each_s / max(each_s + passes.exchange_s, 1e-12)


def _seldom(diagnosis: Diagnosis, place: Location | None) -> Proposal:
    """Per batch, half the exchanges are left, half the copying after them, and half the optimizer steps."""
    passes = passes_of(diagnosis, True)
    spared = step_share(diagnosis, "optimizer") * diagnosis.step_s
    spared += passes.exchange_cpu_s if passes is not None else 0.0
    compute = max(mean_of(diagnosis, "compute"), spared, 1e-12)
    change = Change(comm=EVERY_SECOND, compute=1 - (1 - EVERY_SECOND) * spared / compute)
    return replace(in_framework(diagnosis, SELDOM.at(place)), change=change)


def _doubled(diagnosis: Diagnosis, code: str, place: Location | None) -> Proposal:
    """Per sample, half the exchanges are left, half the copying for them, and half the optimizer steps."""
    stepping = step_share(diagnosis, "optimizer") * diagnosis.step_s
    compute = max(mean_of(diagnosis, "compute"), stepping, 1e-12)
    left = copying_left(diagnosis, EVERY_SECOND) - (1 - EVERY_SECOND) * stepping / compute
    return replace(DOUBLE.at(place, code), change=Change(comm=EVERY_SECOND, compute=max(0.0, left)))


# ddp-accum-sync
ACCUMULATES = 1.5  # passes per optimizer step, and exchanges per needed one (chosen)
NO_SYNC = Proposal(
    id="ddp-no-sync",
    title="exchange gradients only when the optimizer is about to step",
    fix=Fix("let gradients add up locally with no_sync()", ACCUMULATE.format(k=4)),
    apply="hook~",
    risk="sums are added in another order: results may differ in the last digits",
    treatments=(Treatment("no_sync", {"passes": 4}),),
)


@finding("comm.allreduce", NO_SYNC)
def ddp_accum_sync(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when gradients are exchanged more often than the optimizer steps."""
    shared, local = passes_of(diagnosis, True), passes_of(diagnosis, False)
    if wrapped(diagnosis) is None or shared is None:
        return None  # no wrapped model, or no exchange that a backward pass waits for
    if diagnosis.scenario is None or not shared.per_step:
        return "steps of a training loop and of its optimizer"
    every = shared.per_step / sum(
        one.pid == pid_of(diagnosis) and one.kind == "ddp" for one in diagnosis.profile.ranks.parallel
    )
    part = shared.count / (shared.count + (local.count if local is not None else 0))
    needed = shared.in_optimizer > MOST * shared.count  # by an optimizer that calls a closure
    if every * part < ACCUMULATES or needed:
        return None
    left = 1 / (every * part)  # of the exchanges, and of the copying after them
    copied = shared.exchange_cpu_s * (1 - left)
    change = Change(comm=left, compute=1 - copied / max(mean_of(diagnosis, "compute"), copied, 1e-12))
    evidence = [
        Evidence("backward passes per optimizer step", "passes_per_step", every, "hooks on passes and steps"),
        Evidence("share of passes that exchange gradients", "exchanged_share", part, TIMED),
        Evidence("time of a pass before it waits for its exchange", "pass_s", shared.local_s, TIMED),
        *([Evidence("time of a local pass", "local_pass_s", local.local_s, TIMED)] if local else []),
        *exchange_evidence(diagnosis),
    ]
    place, count = line_of(diagnosis), round(every)
    proposal = replace(
        in_framework(diagnosis, NO_SYNC.at(place, ACCUMULATE.format(k=count)), count),
        title=f"exchange gradients once in {count} passes, when the optimizer is about to step",
        change=change,
        treatments=(Treatment("no_sync", {"passes": count}),),
    )
    return Finding("ddp-accum-sync", "comm.allreduce", evidence, [proposal], place)


# ddp-overhead-flags
FEW, MANY = 3, 50  # buckets (chosen)
DEFAULT_BYTES = 25 * 2**20  # of a bucket [torch.nn.parallel.DistributedDataParallel]
BOTH_WAYS = (1.0, 2.0, 2.0)  # times the copying back: there as well
VIEW = Proposal(
    id="ddp-bucket-view",
    title="let gradients live in the buckets that are exchanged",
    fix=Fix("where the model is wrapped", "DistributedDataParallel(MODEL, gradient_as_bucket_view=True)"),
    apply="hook~",
    risk="gradients are views then: detach_() on them fails; use zero_grad()",
    basis="bound",
    treatments=(Treatment("ddp", {"arguments": {"gradient_as_bucket_view": True}}),),
)


@finding("comm.allreduce", VIEW)
def ddp_overhead_flags(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when a DDP option has a measured or known cost."""
    model, passes, scenario = wrapped(diagnosis), passes_of(diagnosis, True), diagnosis.scenario
    if model is None or scenario is None:
        return None  # nothing is wrapped, or no step was seen
    if passes is None:
        return "backward passes that exchange gradients in the training thread"
    copying = passes.exchange_cpu_s / max(diagnosis.step_s, 1e-12)
    evidence, proposals, place = [], [], line_of(diagnosis)
    if model.arguments.get("gradient_as_bucket_view") == "False" and copying > TRIFLE:
        text = "share of the step that the thread copies gradients back"
        evidence.append(Evidence(text, "copy_back_share", copying, TIMED))
        part = passes.exchange_cpu_s / max(mean_of(diagnosis, "compute"), 1e-12)
        changes = each(compute=[max(0.0, 1 - times * part) for times in BOTH_WAYS])
        proposals.append(priced(VIEW.at(place), scenario, *changes, most=changes[-1]))
    if model.arguments.get("find_unused_parameters") == "True" and model.unused_bytes == 0:
        text = "find_unused_parameters=True, and bytes of parameters that were unused"
        evidence.append(Evidence(text, "unused_bytes", 0.0, "DDP logging data"))
    count = len(model.bucket_bytes or ())
    few = 0 < count < FEW and model.gradient_bytes > DEFAULT_BYTES
    if turn_share(diagnosis, "comm") >= NOTICED and (few or count > MANY):
        text = "buckets in which gradients travel: try others with bucket_cap_mb"
        evidence.append(Evidence(text, "buckets", float(count), BUILT))
    return Finding("ddp-overhead-flags", "comm.allreduce", evidence, proposals, place) if evidence else None


# dataparallel-used
DEVICES = 2  # below, it is only a wrapper [TensorBoard plugin of the PyTorch profiler]
GAIN = (1.0, 1.2, 2.0)  # with two devices, at best twice (chosen)
DATAPARALLEL_SNIPPET = snippet("ranks", "DATAPARALLEL_SNIPPET")
USE_DDP = Proposal(
    id="use-ddp",
    title="start one process per device: DistributedDataParallel",
    fix=Fix("wrap the model, and launch with torchrun", DATAPARALLEL_SNIPPET.format(count=2)),
    factor=GAIN,
    effort="hours",
    risk="each rank seeds and logs for itself; batch_size is per rank then",
    basis="bound",
)


@finding("comm.allreduce", USE_DDP)
def dataparallel_used(diagnosis: Diagnosis) -> Finding | None:
    """Fires when one process spreads its model over several devices."""
    model = wrapped(diagnosis, "dp")
    if model is None or model.devices < DEVICES:
        return None
    place = Location(model.file, model.line, model.function) if model.file else None
    said, count = "devices that one process drives through nn.DataParallel", model.devices
    evidence = [Evidence(said, "devices", float(count), "hook on DataParallel")]
    proposal = replace(
        USE_DDP.at(place, DATAPARALLEL_SNIPPET.format(count=count)),
        title=f"{USE_DDP.title} on {count} ranks",
        most=float(count),
    )
    return Finding("dataparallel-used", "comm.allreduce", evidence, [proposal], place)
