"""Somebody else keeps the disk busy, and this training waits for it.

## What it means
Most of what the machine's disks read and write is not the job's. Its own reads, checkpoints or forced log
lines stand in line behind them.

## Why it costs
A disk serves one line of requests. A read that takes 0.1 ms alone takes as long as what stands before it.

## How it is measured
Bytes that the physical disks moved, less what the job's processes read and wrote; the share of time in which
the disks had work; the time that makers of batches sleep in reads, and that checkpoints and logging are
blocked.

## Thresholds
Strangers cause more than 30 % of the traffic and 5 MB/s, on disks that are busy half of the time. Reads are a
fifth of what a batch costs its maker and the loop waits for 5 % of the step; or blocked checkpoints and
logging take 2 % of it (ours).

## When this advice is wrong
Counters are the machine's: where the data lies on one of many disks, the strangers may use another. Reads of
the job that another process makes for it (a server, a FUSE daemon) look like strangers. What the job wrote
before may still be on its way to the disk.

## Prediction
Replay with the sleep reduced to the job's share of the traffic, at worst halfway there and nothing for
writes; of checkpoints, which mostly go to memory first, half. Reads and forced writes do not become faster
than on an idle disk: likely a cloud volume's half a millisecond and four, at best a local NVMe disk's.

## References
iostat(1); ionice(1); cgroup v2 `io.max`, `io.latency`; proc(5), "io".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.host import Disks, measure_disks
from ..analyse.steps import span_of
from ..model.diagnosis import (
    Abstention,
    BatchCost,
    Change,
    CostShares,
    Diagnosis,
    Finding,
    Proposal,
    Scenario,
    StepCost,
)
from ..model.instruments import Operation, Series
from ..model.report import Evidence, Fix
from .parts.advice import (
    judge_reads,
    making_s,
    operations_of,
    place_of,
    spread,
    step_share,
    wait_evidence,
    waits,
)
from .parts.entry import Case, Entry, inputs_of, patient

ID = "disk-contended"
READ_SHARE = 0.2  # of what a batch costs its maker (ours)
WRITE_SHARE = 0.02  # of the step [catalogue F27]
ALONE_READ_S = (5e-4, 1.2e-4)  # a read from an idle disk: a cloud volume's, a local NVMe disk's (ours)
ALONE_WRITE_S = (
    4e-3,
    5e-4,
)  # a forced write to an idle disk: a virtual one's [measured], a local NVMe disk's
FAST_BYTES_PER_S = 3e9  # and what the latter delivers [catalogue B]

ISOLATE = Proposal(
    id="io-isolate",
    title="keep other jobs off the disk that this training uses",
    fix=Fix(
        "give it a volume of its own, or hold the others back",
        "ionice -c 3 -p PID    # for each of the others, where the disk's scheduler heeds it",
    ),
    apply="admin",
    effort="hours",
    risk="what the disk delivers to several readers together may be more than it gives to one",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the job waits for a disk that strangers keep busy."""
    scenario, inputs = diagnosis.scenario, diagnosis.inputs
    if scenario is None:
        return None
    reading = waits(diagnosis) and inputs.storage >= READ_SHARE * making_s(inputs)
    writing = scenario.shares.stored * (
        step_share(diagnosis, "checkpoint") + step_share(diagnosis, "logging")
    )
    if not reading and writing < WRITE_SHARE:
        return None
    disks = measure_disks(diagnosis.profile, *span_of(diagnosis.steps))
    if disks is None:
        return Abstention(ID, "what the disks moved, and how much of it was the job's")
    if not disks.shared:
        return None
    known = (
        ("the job's share of what the disks move", "disk_job_share", disks.job_share),
        ("bytes per second that strangers move", "strangers_bytes_per_s", disks.strangers_bytes_per_s),
        ("share of time in which the disks had work", "disk_busy", disks.busy),
        ("mean number of requests in their queues", "disk_queue", disks.queue),
    )
    evidence = [Evidence(*one, "diskstats less task io") for one in known]
    evidence += wait_evidence(diagnosis) if reading else []
    proposal = _alone(diagnosis, scenario, disks)
    return Finding(ID, _cause(diagnosis, reading), evidence, [proposal], place_of(diagnosis))


def _cause(diagnosis: Diagnosis, reading: bool) -> str:
    if reading:
        return "input.storage"
    saving = step_share(diagnosis, "checkpoint") >= step_share(diagnosis, "logging")
    return "host.checkpoint" if saving else "host.logging"


def _alone(diagnosis: Diagnosis, scenario: Scenario, disks: Disks) -> Proposal:
    """Without strangers on the same disks, the job has their bandwidth too."""
    share = disks.job_share
    reads, writes = _floors(_reading(diagnosis), share), _floors(_writing(diagnosis), share)
    halfway = _eased(scenario, (1 + share) / 2, 1.0)
    likely, best = (_eased(scenario, *both) for both in zip(reads, writes, strict=True))
    return replace(ISOLATE, factor=spread(scenario, halfway, likely, best))


def _eased(scenario: Scenario, reading: float, writing: float) -> Change:
    """So much of the sleep in reads is left, and of what blocks checkpoints and logging.

    A checkpoint that nobody forces to the disk lands in memory first: only half of its blocked time counts.
    """
    spared = scenario.shares.stored * (1 - writing)
    return Change(storage=reading, checkpoint=1 - spared / 2, logging=1 - spared)


def _floors(parts: tuple[float, float], share: float) -> tuple[float, float]:
    """What is left likely and at best: the job's share, but no less than an idle disk would take."""
    return max(share, parts[0]), max(share, parts[1])


def _reading(diagnosis: Diagnosis) -> tuple[float, float]:
    """The part of a read's time that it would take on an idle disk: likely, at best."""
    reads = judge_reads(diagnosis)
    if not reads.each_s or reads.each_bytes is None:
        return 1.0, 1.0
    moving = reads.each_bytes / FAST_BYTES_PER_S
    slow, fast = (min(1.0, (alone + moving) / reads.each_s) for alone in ALONE_READ_S)
    return slow, fast


def _writing(diagnosis: Diagnosis) -> tuple[float, float]:
    """The same for the blocked part of one checkpoint or forced log line."""
    calls = operations_of(diagnosis, "checkpoint") + operations_of(diagnosis, "logging")
    blocked_s = sum(one.total_s - one.cpu_s for one in calls)
    if blocked_s <= 0:
        return 1.0, 1.0
    each_s = blocked_s / sum(one.count for one in calls)
    slow, fast = (min(1.0, alone / each_s) for alone in ALONE_WRITE_S)
    return slow, fast


WORK = BatchCost(0.002, storage=0.02)
LOOP = StepCost(0.0, 0.002)
READ = inputs_of(WORK, 1, 0.022, storage_bytes=2e6, read_bytes=2e6, reads=20.0)


def _case(
    strangers: float | None,
    work: BatchCost = WORK,
    cost: StepCost = LOOP,
    busy: float = 1.0,
    saves: tuple[Operation, ...] = (),
) -> Diagnosis:
    """The job moves 90 MB/s and strangers so much; None = nobody counted."""
    base = patient(
        work, cost, workers=1, operations=saves, inputs=replace(READ, storage=work.storage, cpu=work.cpu)
    )
    scene = replace(base.scenario or Scenario((), ()), shares=CostShares(stored=0.8))
    times = [0.0, 50.0, 100.0]
    per_s = {"disk_busy_s": busy, "disk_read_bytes": 9e7 + (strangers or 0.0), "job_read_bytes": 9e7}
    series = Series(times, {name: [t * value for t in times] for name, value in per_s.items()})
    facts = replace(base.profile, series=series if strangers is not None else Series())
    return replace(base, scenario=scene, profile=facts)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    saving = StepCost(0.0, 0.01, checkpoint=0.02)
    saves = Operation("checkpoint", 1, 0, "save", 40, 4.0, 0.4, 0.2)
    return (
        Case("reads wait behind strangers", _case(3e8), "fires", "io-isolate"),
        Case(
            "checkpoints wait behind strangers",
            _case(3e8, BatchCost(0.001), saving, saves=(saves,)),
            "fires",
            "io-isolate",
        ),
        Case("the loader needs no disk", _case(3e8, BatchCost(0.02)), "silent"),
        Case("the disk is the job's", _case(1e6), "silent"),
        Case("the disk is mostly idle", _case(3e8, busy=0.1), "silent"),
        Case("nobody counted", _case(None), "abstains"),
    )


FINDING = Entry(ID, "input.storage", examine, remedies=(ISOLATE,))
