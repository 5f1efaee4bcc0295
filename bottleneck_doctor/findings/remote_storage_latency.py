"""Whoever makes the batches waits for a network: an object store, NFS, FUSE, a database.

## What it means
Each sample costs a round trip or several. Meanwhile neither the CPU nor the model has anything to do.

## Why it costs
A batch of n samples, asked for one after the other, costs n round trips. Round trips of different workers
overlap.

## How it is measured
The time of a fetch less its CPU and less its wait for a core is sleep; what the thread sleeps in is seen
from outside: receives from sockets, and wait channels of network file systems. Sockets show no bytes and
network file systems no disk traffic, so bytes are not asked.

## Thresholds
Data wait above 5 % of the step: the rule of the profiler's TensorBoard plugin. The network is more than
half of what a batch costs its maker, or the verdict's cause.

## When this advice is wrong
How much the link still has room for was not measured: once it is full, neither more workers nor larger
requests help. Servers limit how often one client may ask. A server on the same machine (a feature store, a
database) shares its cores. TLS and decompression are CPU and are counted as such.

## Prediction
Workers: replay of the measured batches; their waits overlap. Larger requests: four samples per round trip,
and nothing gained on the transfer itself. Local copies: 0.12 ms per sample, a read from an NVMe disk,
against the measured wait per sample.

## References
WebDataset, "pipe:" URLs; MosaicML Streaming, predownload and local cache; nfs(5), rsize; mount.fuse(8).
"""

from __future__ import annotations

from dataclasses import replace

from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Inputs, Proposal, StepCost
from ..model.fetches import HotFiles
from ..model.report import Evidence, Fix
from .parts.advice import LOOKS_AT_LEAST, hot_files_of, more_workers, place_of, spread, starved, wait_evidence
from .parts.entry import Case, Entry, given, inputs_of, patient, timed_fetches
from .parts.remedies import STAGE, WORKERS

ID = "remote-storage-latency"
SAMPLES_PER_REQUEST = (2.0, 4.0, 16.0)  # that a larger request is assumed to bring (ours)
LOCAL_READ_S = (2e-3, 1.2e-4, 8e-5)  # a small local read: busy cloud volume, NVMe, NVMe at its best (ours)
STREAMED_LEFT = (0.5, 0.2, 0.05)  # of the wait, when shards are fetched ahead (ours)

LARGER = Proposal(
    id="bigger-requests",
    title="ask for several samples in one request",
    fix=Fix(
        "fetch a batch, or a shard, at once",
        "def __getitems__(self, indices):          # the loader calls this once per batch\n"
        "    return decode_all(client.get_many(indices))   # one request, or byte ranges of 1 MB and more",
    ),
    effort="hours",
    risk="nothing is gained where the transfer, not the round trip, takes the time",
    basis="bound",
)
MIRROR = replace(STAGE, id="local-mirror", title="copy the data set to a local disk first")
STREAM = Proposal(
    id="remote-streaming",
    title="stream large shards ahead of the training, and keep them in a local cache",
    fix=Fix(
        "pack the samples into shards and stream those",
        'urls = "pipe:curl -sf https://host/train-{000000..000255}.tar"\n'
        'data = wds.WebDataset(urls, shardshuffle=256, cache_dir="/fast/cache").shuffle(5000)',
    ),
    apply="convert",
    effort="days",
    risk="order: shuffle shards and a buffer; each worker needs shards of its own",
    basis="bound",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the loop waits for data from a network."""
    inputs = diagnosis.inputs
    if inputs.blocked_samples < LOOKS_AT_LEAST and starved(diagnosis, "input.wait", inputs.wait):
        return Abstention(ID, "what the makers of batches sleep in (wait channels)")
    if not starved(diagnosis, "input.network", inputs.network):
        return None
    each_s = inputs.network / max(inputs.samples, 1.0)
    evidence = [*wait_evidence(diagnosis),
                Evidence("wait for the network per sample", "network_wait_s", each_s, "wait channels"),
                *_mounts(diagnosis)]  # fmt: skip
    proposals = [*more_workers(diagnosis), *_nearer(diagnosis, each_s)]
    return Finding(ID, "input.network", evidence, proposals, place_of(diagnosis))


def _mounts(diagnosis: Diagnosis) -> list[Evidence]:
    """The kinds of file system that the files seen lie on."""
    hot = hot_files_of(diagnosis)
    kinds = sorted(hot.mounts) if hot is not None else []
    return [Evidence(f"the data set's files lie on {kind}", "", None, "mountinfo") for kind in kinds]


def _nearer(diagnosis: Diagnosis, each_s: float) -> list[Proposal]:
    """Fewer round trips; and a copy on a local disk, made before training or while it runs."""
    samples = diagnosis.inputs.samples
    left: list[tuple[Proposal, list[float]]] = []
    if samples >= SAMPLES_PER_REQUEST[0]:
        left.append((LARGER, [1 / min(count, samples) for count in SAMPLES_PER_REQUEST]))
    if each_s >= 2 * LOCAL_READ_S[1]:
        left.append((MIRROR, [min(1.0, read_s / each_s) for read_s in LOCAL_READ_S]))
        left.append((STREAM, [*STREAMED_LEFT]))
    scenario, place = given(diagnosis.scenario), place_of(diagnosis)
    return [
        replace(remedy.at(place), factor=spread(scenario, *(Change(network=one) for one in waits)))
        for remedy, waits in left
    ]


WORK = BatchCost(0.001, network=0.03)


def _case(inputs: Inputs, work: BatchCost = WORK) -> Diagnosis:
    """Two workers that wait for objects; the loop uses 3 ms."""
    return patient(work, StepCost(0.0, 0.003), workers=2, inputs=inputs)


def _on_nfs(sick: Diagnosis) -> Diagnosis:
    return replace(sick, profile=replace(sick.profile, hot_files=[HotFiles("1:1", 9, 0, mounts={"nfs4": 9})]))


OBJECTS = inputs_of(WORK, 2, 0.0155)
ASLEEP = BatchCost(0.001, wait=0.03)
LOCAL = BatchCost(0.001, storage=0.03)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case("objects one by one", _case(OBJECTS), "fires", "workers-auto"),
        Case("a mount across the network", _on_nfs(_case(OBJECTS)), "fires", "local-mirror"),
        Case("reads from a local disk", _case(inputs_of(LOCAL, 2, 0.0155), LOCAL), "silent"),
        Case("sleeping between requests", _case(inputs_of(ASLEEP, 2, 0.0155), ASLEEP), "silent"),
        Case(
            "waits that nobody saw",
            _case(inputs_of(ASLEEP, 2, 0.0155, blocked_samples=0), ASLEEP),
            "abstains",
        ),
    )


FINDING = Entry(
    ID, "input.network", examine, needs=(timed_fetches,), remedies=(WORKERS, LARGER, MIRROR, STREAM)
)
