"""Batches travel through shared memory, or through open files, and there is little left of one of them.

## What it means
Workers put each batch into `/dev/shm` and hand over descriptors, one per tensor. Where the room or the number
of descriptors runs out, a worker dies of a bus error or with "too many open files", often hours later.

## Why it costs
Nothing, until it costs the run. Containers get 64 MB of `/dev/shm` unless told otherwise.

## How it is measured
The size of finished batches, the loader's slots (workers times prefetch), the room in `/dev/shm` at the
start, open files of the process nearest to its limit, every two seconds.

## Thresholds
Twice what all slots and the batch in use can hold exceeds the room at the start; or 80 % of a process's
descriptors are in use.

## When this advice is wrong
Batches that vary in size may need more than the mean says. The sharing strategy `file_system` needs no
descriptors. What else uses `/dev/shm` is not foreseen.

## Prediction
No step becomes faster: the factor is 1. What a shallower prefetch costs is replayed.

## References
torch.multiprocessing, "Sharing strategies"; docker run, `--shm-size`; getrlimit(2), RLIMIT_NOFILE.
"""

from __future__ import annotations

from dataclasses import replace

from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Proposal, StepCost
from ..model.fetches import Payload
from ..model.instruments import Series
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.advice import NOTHING, on_loader, payload_of, readings
from .parts.entry import Case, Entry, dataloader_loop, given, patient

ID = "shm-exhaustion"
ROOM = 2.0  # times what the slots hold: batches vary, and are freed late [catalogue F26]
DESCRIPTORS = 0.8  # of the limit in use [catalogue F26]

MORE_ROOM = Proposal(
    id="grow-shm",
    title="give the container more shared memory",
    fix=Fix(
        "raise its size; kubernetes: an emptyDir of medium Memory at /dev/shm",
        "docker run --shm-size=8g ...    # or --ipc=host",
    ),
    factor=NOTHING,
    apply="admin",
    risk="it counts as memory of the container",
)
MORE_FILES = Proposal(
    id="raise-descriptor-limit",
    title="allow more open files, or share tensors by name",
    fix=Fix(
        "raise the limit before the training starts",
        "ulimit -n 65536    # or torch.multiprocessing.set_sharing_strategy('file_system')",
    ),
    factor=NOTHING,
    apply="env",
    treatments=(Treatment("descriptors", {}),),
)
FEWER_IN_FLIGHT = Proposal(
    id="shrink-prefetch",
    title="prefetch one batch per worker",
    fix=Fix("fewer batches in flight", "DataLoader(..., prefetch_factor=1)"),
    change=Change(prefetch=1),
    apply="hook",
    risk="rare slow batches are felt sooner",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when shared memory or descriptors may not suffice."""
    loader = given(diagnosis.loader)
    if not loader.num_workers:
        return None
    payload, room = payload_of(diagnosis), _room(diagnosis)
    if payload is None or room is None:
        return Abstention(ID, "the size of a batch, and the room in /dev/shm")
    slots = loader.num_workers * (loader.prefetch_factor or 2) + 1
    need = slots * payload.tensor_bytes
    used, limit = _descriptors(diagnosis)
    tight, crowded = ROOM * need > room, limit > 0 and used >= DESCRIPTORS * limit
    if not tight and not crowded:
        return None
    evidence = [
        Evidence("bytes that the loader's batches can hold at once", "batches_bytes", need, "batches seen"),
        Evidence("bytes of room in /dev/shm at the start", "shm_free_bytes", room, "statvfs"),
    ]
    if limit > 0:
        evidence.append(Evidence("share of its descriptors that a process used", "descriptor_share",
                                 used / limit, "/proc/PID/fd"))  # fmt: skip
    proposals = [MORE_ROOM] * tight + [MORE_FILES] * crowded
    if (loader.prefetch_factor or 2) > 1:
        proposals.append(on_loader(FEWER_IN_FLIGHT, loader, prefetch_factor=1))
    return Finding(ID, "input.ipc", evidence, proposals, loader.location)


def _room(diagnosis: Diagnosis) -> float | None:
    """Bytes free in /dev/shm before the batches filled it."""
    seen = readings(diagnosis.profile.series, "shm_free_bytes")
    return max((value for _, value in seen), default=diagnosis.profile.machine.shm_free_bytes)


def _descriptors(diagnosis: Diagnosis) -> tuple[float, float]:
    """The fullest reading: (in use, limit); zeros where none was taken."""
    series = diagnosis.profile.series
    used, limits = (readings(series, name) for name in ("descriptors", "descriptor_limit"))
    pairs = [(one, most) for (_, one), (_, most) in zip(used, limits, strict=False) if most > 0]
    return max(pairs, key=lambda pair: pair[0] / pair[1], default=(0.0, 0.0))


def _case(batch_bytes: float, room: float | None = 64e6, used: float = 40.0, workers: int = 4) -> Diagnosis:
    """Four workers in a container with so much room in /dev/shm."""
    base = patient(BatchCost(0.001), StepCost(0.01), workers=workers)
    values: dict[str, list[float | None]] = {"descriptors": [used], "descriptor_limit": [256.0]}
    if room is not None:
        values["shm_free_bytes"] = [room]
    facts = replace(
        base.profile, payloads=[Payload("1:1", 9, 2.0, batch_bytes)], series=Series([1.0], values)
    )
    return replace(base, profile=facts)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case("nine batches of 8 MB, 64 MB of room", _case(8e6), "fires"),
        Case("most descriptors are in use", _case(1e5, used=240.0), "fires"),
        Case("small batches", _case(1e6), "silent"),
        Case("one process", _case(8e6, workers=0), "silent"),
        Case("the room is not known", _case(8e6, room=None), "abstains"),
    )


FINDING = Entry(
    ID, "input.ipc", examine, needs=(dataloader_loop,), remedies=(MORE_ROOM, MORE_FILES, FEWER_IN_FLIGHT)
)
