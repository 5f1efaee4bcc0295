"""How storage serves the reads of a data set, and the remedy to read from a faster disk."""

from __future__ import annotations

from ...analyse import reads
from ...analyse.reads import UNSURE, Reads
from ...model.diagnosis import Diagnosis, Proposal
from ...model.report import Evidence, Fix
from .facts import key_of

STAGE = Proposal(
    id="stage-to-fast-storage",
    title="copy the data set to a local disk before training",
    fix=Fix(
        "copy the data set once and read the copy",
        "rsync -a --info=progress2 /slow/dataset/ /fast/dataset/    # then train on /fast/dataset",
    ),
    apply="convert",
    effort="hours",
    risk="needs the room, and the time of one copy; a container's own layer may be the slow disk again",
    basis="bound",
)
TASK_IO = "io counters of the task"


def judge_reads(diagnosis: Diagnosis) -> Reads:
    """How storage serves this data set."""
    workers = diagnosis.loader.num_workers if diagnosis.loader is not None else 0
    return reads.judge_reads(
        diagnosis.profile, key_of(diagnosis), workers, diagnosis.inputs, diagnosis.host, diagnosis.step_s
    )


def read_evidence(diagnosis: Diagnosis, judged: Reads) -> list[Evidence]:
    """What is known about the reads, about the disks below, and about limits set on them."""
    inputs, host, machine = diagnosis.inputs, diagnosis.host, diagnosis.profile.machine
    limit_bytes, limit_reads = machine.read_limit_bytes_per_s, machine.read_limit_iops
    parts = (
        ("bytes per batch that came from a disk", "fetch_storage_bytes", inputs.storage_bytes, TASK_IO),
        ("bytes per read that came from a disk", "read_size_bytes", judged.each_bytes, TASK_IO),
        ("time asleep per read from a disk", "read_s", judged.each_s, "wait channels, task io"),
        ("bytes per second that the job read", "job_read_bytes_per_s", host.job_read_bytes_per_s, TASK_IO),
        ("share of time in which the machine's disks had work", "disk_busy", host.disk_busy, "diskstats"),
        ("mean number of requests in the disks' queues", "disk_queue", host.disk_queue, "diskstats"),
        ("limit on bytes read per second", "read_limit_bytes_per_s", limit_bytes, "control group"),
        ("limit on reads per second", "read_limit_iops", limit_reads, "control group"),
    )
    found = [Evidence(*part) for part in parts if part[2] is not None]
    if not inputs.blocked_samples:
        found.append(
            Evidence("no thread was sampled asleep: the bytes read alone say that the waits are for storage")
        )
    if judged.pace in UNSURE:
        found.append(Evidence("not measured whether storage serves more at once: twice as many is assumed"))
    return found
