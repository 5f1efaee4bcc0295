"""How a model is spread over ranks or devices: settings of DistributedDataParallel, and DataParallel."""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.predict import WORTH
from ..model.code import Location
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.computing import WHOLE, as_one
from .parts.entry import Entry, spread
from .parts.ranks import (
    BUILT,
    TIMED,
    count_of,
    exchange_evidence,
    line_of,
    mean_of,
    passes_of,
    share_of,
    wrapped,
)

# ddp-accum-sync
ACCUMULATES = 1.5  # passes per optimizer step, and exchanges per needed one (chosen)
CLOSURES = 0.5  # of the passes called by an optimizer: it needs each of them (chosen)
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


def ddp_accum_sync(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when gradients are exchanged more often than the optimizer steps."""
    shared, local = passes_of(diagnosis, True), passes_of(diagnosis, False)
    if wrapped(diagnosis) is None or shared is None:
        return None  # no wrapped model, or no exchange that a backward pass waits for
    if diagnosis.scenario is None:
        return Abstention("ddp-accum-sync", "steps of a training loop")
    if not shared.per_step:
        return Abstention("ddp-accum-sync", "steps of an optimizer")
    every = shared.per_step / count_of(diagnosis)
    part = shared.count / (shared.count + (local.count if local is not None else 0))
    if every < ACCUMULATES or every * part < ACCUMULATES or shared.in_optimizer > CLOSURES * shared.count:
        return None
    left = 1 / (every * part)  # of the exchanges, and of the copying after them
    copied = shared.exchange_cpu_s * (1 - left)
    change = Change(comm=left, compute=1 - copied / max(mean_of(diagnosis, "compute"), copied, 1e-12))
    if gain(diagnosis.scenario, change) < WORTH:
        return None
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
COPIES = 0.02  # of the step (chosen)
EXPOSED = 0.1  # of the step, from which bucket sizes are reported [TensorBoard plugin]
FEW, MANY = 3, 50  # buckets (chosen)
DEFAULT_BYTES = 25 * 2**20  # of a bucket [torch.nn.parallel.DistributedDataParallel]
BOTH_WAYS = (1.0, 2.0, 3.0)  # times the copying back: there as well, and what it delays (chosen)
BOOKS = "DDP logging data"
VIEW = Proposal(
    id="ddp-bucket-view",
    title="let gradients live in the buckets that are exchanged",
    fix=Fix("where the model is wrapped", "DistributedDataParallel(model, gradient_as_bucket_view=True)"),
    apply="hook~",
    risk="gradients are views then: detach_() on them fails; use zero_grad()",
    basis="bound",
    treatments=(Treatment("ddp", {"arguments": {"gradient_as_bucket_view": True}}),),
)


def ddp_overhead_flags(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when a DDP option has a measured or known cost."""
    model, passes = wrapped(diagnosis), passes_of(diagnosis, True)
    if model is None or diagnosis.scenario is None:
        return None  # nothing is wrapped, or no step was seen
    if passes is None:
        return Abstention(
            "ddp-overhead-flags", "backward passes that exchange gradients in the training thread"
        )
    copying = passes.exchange_cpu_s / max(diagnosis.step_s, 1e-12)
    copies = model.arguments.get("gradient_as_bucket_view") == "False" and copying > COPIES
    evidence, proposals, place = [], [], line_of(diagnosis)
    if copies:
        text = "share of the step that the thread copies gradients back"
        evidence.append(Evidence(text, "copy_back_share", copying, TIMED))
        part = passes.exchange_cpu_s / max(mean_of(diagnosis, "compute"), 1e-12)
        changes = [Change(compute=max(0.0, 1 - times * part)) for times in BOTH_WAYS]
        factor, most = spread(diagnosis.scenario, *changes), gain(diagnosis.scenario, changes[-1])
        proposals.append(replace(VIEW.at(place), factor=factor, most=most))
    if model.arguments.get("find_unused_parameters") == "True" and model.unused_bytes == 0:
        text = "find_unused_parameters=True, and bytes of parameters that were unused"
        evidence.append(Evidence(text, "unused_bytes", 0.0, BOOKS))
    count = len(model.bucket_bytes or ())
    few = 0 < count < FEW and model.gradient_bytes > DEFAULT_BYTES
    if share_of(diagnosis, "comm") >= EXPOSED and (few or count > MANY):
        text = "buckets in which gradients travel: try others with bucket_cap_mb"
        evidence.append(Evidence(text, "buckets", float(count), BUILT))
    return Finding("ddp-overhead-flags", "comm.allreduce", evidence, proposals, place) if evidence else None


# dataparallel-used
DEVICES = 2  # below, it is only a wrapper [TensorBoard plugin of the PyTorch profiler]
GAIN = (1.0, 1.2, 2.0)  # (chosen)
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
    fix=Fix(
        "wrap the model in DistributedDataParallel and launch with torchrun",
        DATAPARALLEL_SNIPPET.format(count=2),
    ),
    factor=GAIN,
    effort="hours",
    risk="each rank seeds and logs for itself; batch_size is per rank then",
    basis="bound",
)


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


FINDINGS = (
    Entry("comm.allreduce", ddp_accum_sync, remedies=(NO_SYNC, WHOLE)),
    Entry("comm.allreduce", ddp_overhead_flags, remedies=(VIEW,)),
    Entry("comm.allreduce", dataparallel_used, remedies=(USE_DDP,)),
)
