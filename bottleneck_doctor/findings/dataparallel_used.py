"""nn.DataParallel drives several devices from one process.

## What it means
One process splits each batch over its devices, copies the model to them, and collects what they return.

## Why it costs
The model is replicated in every step, one thread per device shares the interpreter's lock, and the first
device gathers all outputs and takes the optimizer step alone while the others wait.

## How it is measured
A hook on the constructor says with how many devices and on which line. What replicating costs is not timed.

## Thresholds
More than one device [TensorBoard plugin of the PyTorch profiler]. On one device it is only a wrapper.

## When this advice is wrong
A model that is used by several threads on purpose, or a quick experiment: nothing has to be launched anew.

## Prediction
A range: nothing gained at the lower end, and half the step at the upper end, where replicating takes as long
as computing (ours). Where it was 1.2 times as fast is in between (ours): no measurement stands behind it.

## References
PyTorch, "CUDA semantics: use nn.parallel.DistributedDataParallel instead of multiprocessing or
nn.DataParallel"; TensorBoard plugin of the PyTorch profiler, recommendation on DataParallel.
"""

from __future__ import annotations

from dataclasses import replace

from ..model.code import Location
from ..model.diagnosis import Diagnosis, Finding, Proposal, StepCost
from ..model.report import Evidence, Fix
from .parts.entry import Case, Entry
from .parts.ranks import MODEL, pair, wrapped

ID = "dataparallel-used"
DEVICES = 2  # below, it is only a wrapper [TensorBoard plugin of the PyTorch profiler]
GAIN = (1.0, 1.2, 2.0)  # (ours)

SNIPPET = """\
torchrun --standalone --nproc_per_node={count} train.py
# in train.py:
torch.distributed.init_process_group("nccl")
device = int(os.environ["LOCAL_RANK"])
model = DistributedDataParallel(model.to(device), device_ids=[device])
loader = DataLoader(data, sampler=DistributedSampler(data), batch_size=batch // {count})"""

USE_DDP = Proposal(
    id="use-ddp",
    title="start one process per device: DistributedDataParallel",
    fix=Fix("wrap the model in DistributedDataParallel and launch with torchrun", SNIPPET.format(count=2)),
    factor=GAIN,
    effort="hours",
    risk="each rank seeds and logs for itself; batch_size is per rank then",
    basis="bound",
)


def examine(diagnosis: Diagnosis) -> Finding | None:
    """Fires when one process spreads its model over several devices."""
    model = wrapped(diagnosis, "dp")
    if model is None or model.devices < DEVICES:
        return None
    place = Location(model.file, model.line, model.function) if model.file else None
    said, count = "devices that one process drives through nn.DataParallel", model.devices
    evidence = [Evidence(said, "devices", float(count), "hook on DataParallel")]
    proposal = replace(
        USE_DDP.at(place, SNIPPET.format(count=count)),
        title=f"{USE_DDP.title} on {count} ranks",
        most=float(count),
    )
    return Finding(ID, "comm.allreduce", evidence, [proposal], place)


def _case(devices: int) -> Diagnosis:
    model = replace(MODEL, kind="dp", devices=devices, world_size=1, backend="")
    return pair(StepCost(0.0, 0.02), model=model, passes=(), world=1)


def cases() -> tuple[Case, ...]:
    """It fires, or it stays silent; there is nothing that could be missing."""
    return (
        Case("four devices", _case(4), "fires", "use-ddp"),
        Case("one device", _case(1), "silent"),
        Case("DistributedDataParallel", pair(StepCost(0.0, 0.02)), "silent"),
    )


FINDING = Entry(ID, "comm.allreduce", examine, remedies=(USE_DDP,))
