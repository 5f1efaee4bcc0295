"""How a model is spread over ranks or devices: settings of DistributedDataParallel, and DataParallel."""

from __future__ import annotations

from dataclasses import replace

from ..model.code import Location
from ..model.diagnosis import Change, Diagnosis, Finding, Proposal
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.computing import WHOLE, as_one
from .parts.entry import finding
from .parts.pricing import each, priced
from .parts.ranks import (
    BUILT,
    TIMED,
    count_of,
    exchange_evidence,
    line_of,
    mean_of,
    passes_of,
    turn_share,
    wrapped,
)
from .parts.shares import MOST, TRIFLE, VISIBLE

# ddp-accum-sync
ACCUMULATES = 1.5  # passes per optimizer step, and exchanges per needed one (chosen)
ACCUM_SNIPPET = """\
for place, (x, y) in enumerate(loader):
    last = (place + 1) % {k} == 0
    with contextlib.nullcontext() if last else model.no_sync():
        (loss_fn(model(x), y) / {k}).backward()        # forward pass inside the context, too
    if last:
        optimizer.step()
        optimizer.zero_grad()"""
NO_SYNC = Proposal(
    id="ddp-no-sync",
    title="exchange gradients only when the optimizer is about to step",
    fix=Fix("let gradients add up locally with no_sync()", ACCUM_SNIPPET.format(k=4)),
    apply="hook~",
    risk="sums are added in another order: results may differ in the last digits",
    treatments=(Treatment("no_sync", {"passes": 4}),),
)


@finding("comm.allreduce", NO_SYNC, WHOLE)
def ddp_accum_sync(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when gradients are exchanged more often than the optimizer steps."""
    shared, local = passes_of(diagnosis, True), passes_of(diagnosis, False)
    if wrapped(diagnosis) is None or shared is None:
        return None  # no wrapped model, or no exchange that a backward pass waits for
    if diagnosis.scenario is None or not shared.per_step:
        return "steps of a training loop and of its optimizer"
    every = shared.per_step / count_of(diagnosis)
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
        NO_SYNC.at(place, ACCUM_SNIPPET.format(k=count)),
        title=f"exchange gradients once in {count} passes, when the optimizer is about to step",
        change=change,
        treatments=(Treatment("no_sync", {"passes": count}),),
    )
    whole = as_one(diagnosis, diagnosis.scenario, count, change)
    proposals = [proposal] if whole is None else [proposal, whole]
    return Finding("ddp-accum-sync", "comm.allreduce", evidence, proposals, place)


# ddp-overhead-flags
FEW, MANY = 3, 50  # buckets (chosen)
DEFAULT_BYTES = 25 * 2**20  # of a bucket [torch.nn.parallel.DistributedDataParallel]
BOTH_WAYS = (1.0, 2.0, 2.0)  # times the copying back: there as well
VIEW = Proposal(
    id="ddp-bucket-view",
    title="let gradients live in the buckets that are exchanged",
    fix=Fix("where the model is wrapped", "DistributedDataParallel(model, gradient_as_bucket_view=True)"),
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
    if turn_share(diagnosis, "comm") >= VISIBLE and (few or count > MANY):
        text = "buckets in which gradients travel: try others with bucket_cap_mb"
        evidence.append(Evidence(text, "buckets", float(count), BUILT))
    return Finding("ddp-overhead-flags", "comm.allreduce", evidence, proposals, place) if evidence else None


# dataparallel-used
DEVICES = 2  # below, it is only a wrapper [TensorBoard plugin of the PyTorch profiler]
GAIN = (1.0, 1.2, 2.0)  # with two devices, at best twice (chosen)
DATAPARALLEL_SNIPPET = """\
torchrun --standalone --nproc_per_node={count} train.py
# in train.py:
torch.distributed.init_process_group("nccl")
device = int(os.environ["LOCAL_RANK"])
model = DistributedDataParallel(model.to(device), device_ids=[device])
loader = DataLoader(data, sampler=DistributedSampler(data), batch_size=batch // {count})"""
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
