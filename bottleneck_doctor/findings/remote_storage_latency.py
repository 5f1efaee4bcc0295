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

from ..model.diagnosis import Abstention, Change, Cure, Diagnosis, Finding, Inputs, Turn, Work
from ..model.profile import HotFiles
from ..model.report import Evidence, Fix
from .advice import more_workers, place_of, staging, starved, unseen, wait_evidence
from .case import inputs_of, patient
from .entry import Case, Entry

LOOKS_AT_LEAST = 5  # at sleeping threads, below which waits cannot be told apart (the split's own rule)
SAMPLES_PER_REQUEST = 4.0  # that a larger request is assumed to bring (ours, low on purpose)
LOCAL_READ_S = 1.2e-4  # a small random read from a local NVMe disk (ours; data sheets say 60 to 100 us)
STREAMED_LEFT = 0.1  # of the wait, at best, when shards are fetched ahead (ours)

LARGER = """\
def __getitems__(self, indices):          # the loader calls this once per batch
    return decode_all(client.get_many(indices))   # one request, or byte ranges of 1 MB and more"""
STREAM = """\
urls = "pipe:curl -sf https://host/train-{000000..000255}.tar"
data = wds.WebDataset(urls, shardshuffle=256, cache_dir="/fast/cache").shuffle(5000).decode().to_tuple("jpg", "cls")"""


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the loop waits for data from a network."""
    blind = unseen(diagnosis, "remote-storage-latency")
    if blind is not None:
        return blind
    inputs = diagnosis.inputs
    if inputs.blocked_samples < LOOKS_AT_LEAST and starved(diagnosis, "input.wait", inputs.wait):
        return Abstention("remote-storage-latency", "what the makers of batches sleep in (wait channels)")
    if not starved(diagnosis, "input.network", inputs.network):
        return None
    each_s = inputs.network / max(inputs.samples, 1.0)
    evidence = [*wait_evidence(diagnosis),
                Evidence("wait for the network per sample", "network_wait_s", each_s, "wait channels"),
                Evidence("looks at sleeping makers of batches", "blocked_samples", float(inputs.blocked_samples),
                         "wait channels"), *_mounts(diagnosis)]  # fmt: skip
    cures = more_workers(diagnosis) + _larger(diagnosis) + _local(diagnosis, each_s)
    return Finding("remote-storage-latency", "input.network", evidence, cures, place_of(diagnosis))


def _mounts(diagnosis: Diagnosis) -> list[Evidence]:
    """The kinds of file system that the files seen lie on."""
    key = diagnosis.loader.key if diagnosis.loader is not None else ""
    kinds = [kind for hot in diagnosis.profile.hot_files if hot.loader == key for kind in hot.mounts]
    return [
        Evidence(f"the data set's files lie on {kind}", "", None, "mountinfo") for kind in sorted(set(kinds))
    ]


def _larger(diagnosis: Diagnosis) -> list[Cure]:
    if diagnosis.inputs.samples < SAMPLES_PER_REQUEST:
        return []
    return [
        Cure(
            id="bigger-requests",
            title="ask for several samples in one request",
            fix=Fix("fetch a batch, or a shard, at once", LARGER, place_of(diagnosis)),
            change=Change(network=1 / SAMPLES_PER_REQUEST),
            effort="hours",
            risk="nothing is gained where the transfer, not the round trip, takes the time",
            basis="range",
        )
    ]


def _local(diagnosis: Diagnosis, each_s: float) -> list[Cure]:
    """A copy on a local disk, made before training or while it runs."""
    if each_s < 2 * LOCAL_READ_S:
        return []
    left = LOCAL_READ_S / each_s
    streaming = Cure(
        id="remote-streaming",
        title="stream large shards ahead of the training, and keep them in a local cache",
        fix=Fix("pack the samples into shards and stream those", STREAM, place_of(diagnosis)),
        change=Change(network=max(left, STREAMED_LEFT)),
        apply="convert",
        effort="days",
        risk="order: shuffle shards and a buffer; each worker needs shards of its own",
        basis="range",
    )
    mirror = staging(
        diagnosis, Change(network=left), "copy the data set to a local disk first", "local-mirror"
    )
    return [mirror, streaming]


WORK = Work(0.001, network=0.03)


def _case(inputs: Inputs, work: Work = WORK) -> Diagnosis:
    """Two workers that wait for objects; the loop uses 3 ms."""
    return patient(work, Turn(0.0, 0.003), workers=2, inputs=inputs)


def _on_nfs(sick: Diagnosis) -> Diagnosis:
    return replace(sick, profile=replace(sick.profile, hot_files=[HotFiles("1:1", 9, 0, mounts={"nfs4": 9})]))


OBJECTS = inputs_of(WORK, 2, 0.0155)
ASLEEP = Work(0.001, wait=0.03)
CASES = (
    Case("objects one by one", _case(OBJECTS), "fires", "workers-auto"),
    Case("a mount across the network", _on_nfs(_case(OBJECTS)), "fires", "local-mirror"),
    Case("reads from a local disk", _case(inputs_of(Work(0.001, storage=0.03), 2, 0.0155), Work(0.001, storage=0.03)),
         "silent"),
    Case("sleeping between requests", _case(inputs_of(ASLEEP, 2, 0.0155), ASLEEP), "silent"),
    Case("waits that nobody saw", _case(inputs_of(ASLEEP, 2, 0.0155, blocked_samples=0), ASLEEP), "abstains"),
)  # fmt: skip
FINDING = Entry("remote-storage-latency", "input.network", examine)
