"""The disk, the volume or a read limit delivers all it can, and the loop waits for it.

## What it means
Reads queue at a device that is already busy all the time, or at a limit that a control group sets. More
workers would only make the queue longer.

## Why it costs
A batch of b bytes cannot come faster than b over the bandwidth, however many workers ask for it.

## How it is measured
In this order: the job's rate of reading against the read limits of its control group; the size of a read
that reached a disk, the share of time in which the disks had work, and the length of their queues. The
sleep itself is seen from outside, by system call and wait channel.

## Thresholds
Data wait above 5 % of the step: the rule of the profiler's TensorBoard plugin. Storage is more than half of
what a batch costs its maker, or the verdict's cause. A read limit counts as reached at 80 %. Disks busy for
80 % of the time count as full with more than 2 requests of 128 KiB or 32 smaller ones in their queues, or
with any small ones on a spinning disk (ours).

## When this advice is wrong
Disk counters are the machine's: where the data set lies on one of many disks, the others' work is counted
too. A cold first epoch is not a steady one: if the data fits into memory, later epochs do not read.

## Prediction
Replay, with the present number of reads at once as all that the storage serves: workers then only help to
overlap reading with the model. A faster place is assumed to deliver 3 GB/s, the lower end of NVMe disks,
and memory shared by all workers no less; the present rate is measured. Where each sample is a small file of
its own, staging is left to the finding about those.

## References
iostat(1); blkio and io controllers of cgroups v1 and v2; proc(5), "io"; Mohan et al., "Analyzing and
Mitigating Data Stalls in DNN Training", VLDB 2021.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.reads import Reads, are_small_files, is_overread
from ..model.diagnosis import (
    Abstention,
    BatchCost,
    Change,
    Diagnosis,
    Finding,
    HostLoad,
    Inputs,
    Proposal,
    StepCost,
)
from .parts.advice import judge_reads, more_workers, place_of, read_evidence, spread, starved, wait_evidence
from .parts.entry import Case, Entry, given, inputs_of, patient, timed_fetches
from .parts.remedies import STAGE, WORKERS

ID = "storage-bandwidth-bound"
FAST_BYTES_PER_S = (1.5e9, 3e9, 7e9)  # local NVMe disks: half the lower end, both ends [catalogue B]
WORTH_MOVING = 0.7  # of a fast disk's rate delivered already, and a faster place pays little (ours)

STAGE_FAST = replace(STAGE, title="copy the data set to a local NVMe disk, or into memory if it fits")


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the loop waits for reads that the storage cannot deliver any faster."""
    if not starved(diagnosis, "input.storage", diagnosis.inputs.storage):
        return None
    reads = judge_reads(diagnosis)
    if reads.pace == "unseen":
        return Abstention(ID, "sizes of the reads that reached a disk, and the disks' counters")
    if reads.pace not in ("device", "limit") or is_overread(diagnosis.inputs, reads):
        return None
    proposals = [] if are_small_files(diagnosis.inputs) else _faster(diagnosis, reads)
    if not given(diagnosis.loader).num_workers:
        title = "read the next batch while the model works on this one"
        proposals += more_workers(diagnosis, reads.readers, title)
    evidence = wait_evidence(diagnosis) + read_evidence(diagnosis, reads)
    return Finding(ID, "input.storage", evidence, proposals, place_of(diagnosis))


def _faster(diagnosis: Diagnosis, reads: Reads) -> list[Proposal]:
    """A faster place for the data, where it is slower than a local NVMe disk."""
    inputs = diagnosis.inputs
    rate = (inputs.storage_bytes or 0.0) / max(inputs.storage, 1e-9) * reads.readers
    if not 0 < rate < WORTH_MOVING * FAST_BYTES_PER_S[1]:
        return []
    left = (Change(storage=min(1.0, rate / fast)) for fast in FAST_BYTES_PER_S)
    factor = spread(given(diagnosis.scenario), *left)
    return [replace(STAGE_FAST.at(place_of(diagnosis)), factor=factor)]


WORK = BatchCost(0.002, storage=0.06)
LARGE = inputs_of(WORK, 4, 0.0155, storage_bytes=16e6, read_bytes=16e6, reads=4.0)
FULL = HostLoad(cores=4.0, disk_busy=1.0, disk_queue=20.0, job_read_bytes_per_s=1e9)


def _case(workers: int = 4, inputs: Inputs = LARGE, host: HostLoad = FULL) -> Diagnosis:
    """Workers that sleep in large reads for nearly all of a batch; the loop uses 2 ms."""
    return replace(patient(WORK, StepCost(0.0, 0.002), workers=workers, cores=4.0, inputs=inputs), host=host)


def _limited(limit_bytes_per_s: float) -> Diagnosis:
    sick = _case(host=replace(FULL, disk_busy=0.2, disk_queue=0.3))
    machine = replace(sick.profile.machine, read_limit_bytes_per_s=limit_bytes_per_s)
    return replace(sick, profile=replace(sick.profile, machine=machine))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case("four workers at a full disk", _case(), "fires", "stage-to-fast-storage"),
        Case("a control group's limit is reached", _limited(1.1e9), "fires", "stage-to-fast-storage"),
        Case("a control group's limit is far", _limited(9e9), "silent"),
        Case("the disk idles most of the time", _case(host=replace(FULL, disk_busy=0.3)), "silent"),
        Case("many small reads", _case(inputs=replace(LARGE, reads=4000.0)), "silent"),
        Case("no disk counters", _case(host=HostLoad(cores=4.0)), "abstains"),
        Case("no fetch was timed", _case(inputs=Inputs()), "abstains"),
    )


FINDING = Entry(ID, "input.storage", examine, needs=(timed_fetches,), remedies=(STAGE_FAST, WORKERS))
