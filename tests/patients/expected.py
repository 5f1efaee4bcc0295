"""What is known about each patient before anyone measures it: the table that diagnoses are held against."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class ReadLimit:
    """A disk slower than the one at hand, as a cloud volume is: enforced by the kernel, where it lets us."""

    bytes_per_s: int | None = None
    reads_per_s: int | None = None


@dataclass(frozen=True)
class Patient:
    """One script and its known illness.

    ``remedies`` are the acceptable first ones: empty means that none may promise more than 1.05, ``None``
    that the remedy is not judged. ``twin`` is the remedy that ``--cured`` applies. ``truth`` says how the
    illness is known without measuring it. ``never`` lists remedies that would not help.
    """

    name: str
    group: str
    bounds: frozenset[str]
    causes: frozenset[str]
    truth: str
    findings: frozenset[str] = frozenset()
    remedies: frozenset[str] | None = None
    twin: str | None = None
    never: frozenset[str] = frozenset()
    wait_tolerance: float | None = 0.02
    strangers: int = 0
    limit: ReadLimit | None = None
    bounds_without_limit: frozenset[str] = field(default_factory=frozenset)


def script(patient: Patient) -> Path:
    """The patient's training script."""
    return Path(__file__).with_name(patient.name.replace("-", "_") + ".py")


def _(*words: str) -> frozenset[str]:
    return frozenset(words)


NOTHING: frozenset[str] = frozenset()

AILING = [
    Patient(
        name="loader-in-main",
        group="ailment",
        bounds=_("cpu"),
        causes=_("input.preprocess"),
        findings=_("loader-in-main"),
        remedies=_("workers-auto"),
        twin="workers-auto",
        truth="12 ms of thread CPU a batch in the main process, then 8 ms asleep for the accelerator",
    ),
    Patient(
        name="workers-too-few",
        group="ailment",
        bounds=_("balanced"),
        causes=_("input.wait"),
        findings=_("workers-too-few"),
        remedies=_("workers-auto"),
        twin="workers-auto",
        truth="one worker sleeps 32 ms a batch, the step takes 5 ms",
    ),
    Patient(
        name="host-cpu-saturated",
        group="ailment",
        bounds=_("cpu"),
        causes=_("input.preprocess"),
        findings=_("host-cpu-saturated", "repeated-deterministic-preprocess"),
        remedies=_("precompute-deterministic", "cache-decoded-ram", "more-cores"),
        twin="precompute-deterministic",
        never=_("workers-auto"),
        truth="four workers need 20 ms of thread CPU a batch, the step sleeps 2 ms: two cores are full",
    ),
    Patient(
        name="workers-too-many",
        group="ailment",
        bounds=_("cpu"),
        causes=_("input.oversubscribed", "model.threads"),
        findings=_("workers-too-many"),
        remedies=_("workers-auto", "reserve-cores"),
        twin="reserve-cores",
        truth="two compute threads and four busy workers on two cores; one of each is faster",
    ),
    Patient(
        name="decode-bound",
        group="ailment",
        bounds=_("cpu"),
        causes=_("input.preprocess"),
        findings=_("decode-bound"),
        remedies=_(
            "decoder-swap", "decode-scaled", "resize-offline", "reencode-offline", "cache-decoded-ram"
        ),
        twin="reencode-offline",
        truth="sixteen real PNG files a batch; as raw arrays the same pixels need no decoder",
    ),
    Patient(
        name="repeated-deterministic-preprocess",
        group="ailment",
        bounds=_("cpu"),
        causes=_("input.preprocess"),
        findings=_("repeated-deterministic-preprocess"),
        remedies=_("precompute-deterministic", "cache-decoded-ram"),
        twin="precompute-deterministic",
        truth="numpy filters without a random part, computed again in every epoch",
    ),
    Patient(
        name="per-sample-indexing",
        group="ailment",
        bounds=_("cpu"),
        causes=_("input.indexing"),
        findings=_("per-sample-indexing"),
        remedies=_("batched-getitems", "batch-sampler-index"),
        twin="batched-getitems",
        truth="a TensorDataset indexed 2048 times a batch",
    ),
    Patient(
        name="collate-bound",
        group="ailment",
        bounds=_("cpu"),
        causes=_("input.collate"),
        findings=_("collate-bound"),
        remedies=_("collate-vectorise"),
        twin="collate-vectorise",
        truth="slices of one tensor, padded as Python lists: only the collate function works",
    ),
    Patient(
        name="ipc-overhead",
        group="ailment",
        bounds=_("cpu"),
        causes=_("input.ipc"),
        findings=_("ipc-overhead"),
        remedies=_("return-tensors"),
        twin="return-tensors",
        truth="views of one array in memory, pickled through the pipe at 10 MB a batch",
    ),
    Patient(
        name="ipc-many-tensors",
        group="ailment",
        bounds=_("cpu"),
        causes=_("input.ipc"),
        findings=_("ipc-overhead"),
        remedies=_("pack-tensors"),
        twin="pack-tensors",
        truth="200 tensors a batch, each with a file descriptor of its own",
    ),
    Patient(
        name="worker-respawn",
        group="ailment",
        bounds=_("cpu"),
        causes=_("input.worker_startup"),
        findings=_("worker-respawn"),
        remedies=_("persistent-workers"),
        twin="persistent-workers",
        truth="epochs of twenty 4 ms steps, each begun by two new workers that read an index for 40 ms",
    ),
    Patient(
        name="storage-latency-bound",
        group="ailment",
        bounds=_("io"),
        causes=_("input.storage"),
        findings=_("storage-latency-bound", "workers-too-few"),
        remedies=_("workers-auto"),
        twin="workers-auto",
        truth="one worker reads 512 random 4 KB blocks a batch past the page cache, one at a time",
    ),
    Patient(
        name="storage-bandwidth-bound",
        group="ailment",
        bounds=_("io"),
        causes=_("input.storage"),
        findings=_("storage-bandwidth-bound"),
        remedies=_("stage-to-fast-storage", "cache-bytes-ram"),
        twin="stage-to-fast-storage",
        never=_("workers-auto"),
        limit=ReadLimit(bytes_per_s=800_000_000),
        truth="four workers read 16 MB a batch past the page cache from a disk held to 800 MB/s",
    ),
    Patient(
        name="small-files",
        group="ailment",
        bounds=_("io"),
        causes=_("input.storage"),
        findings=_("small-files", "storage-bandwidth-bound"),
        remedies=_("pack-shards", "cache-bytes-ram"),
        twin="pack-shards",
        limit=ReadLimit(reads_per_s=6000),
        bounds_without_limit=_("io", "cpu"),
        truth="128 cold 16 KB files a batch from a disk held to 6000 reads a second; packed: one read",
    ),
    Patient(
        name="remote-storage-latency",
        group="ailment",
        bounds=_("io"),
        causes=_("input.network"),
        findings=_("remote-storage-latency", "workers-too-few"),
        remedies=_("workers-auto", "bigger-requests", "local-mirror", "remote-streaming"),
        twin="workers-auto",
        truth="a TCP server answers each of eight requests a batch after 4 ms",
    ),
    Patient(
        name="logging-blocking",
        group="ailment",
        bounds=_("cpu", "io"),
        causes=_("host.logging"),
        findings=_("logging-blocking"),
        remedies=_("log-every-n", "async-writer"),
        twin="log-every-n",
        truth="three log lines a step, each forced to the disk",
    ),
    Patient(
        name="checkpoint-blocking",
        group="ailment",
        bounds=_("cpu", "io"),
        causes=_("host.checkpoint"),
        findings=_("checkpoint-blocking"),
        remedies=_("checkpoint-less", "checkpoint-async"),
        twin="checkpoint-less",
        truth="26 MB saved every ten steps of 3 ms",
    ),
]

HEALTHY = [
    Patient(
        name="model-compute",
        group="healthy",
        bounds=_("cpu"),
        causes=_("model.compute"),
        remedies=NOTHING,
        truth="a table in memory under 5 million weights that the CPU multiplies",
    ),
    Patient(
        name="healthy-balanced",
        group="healthy",
        bounds=_("balanced"),
        causes=_("none"),
        remedies=NOTHING,
        truth="the step sleeps 50 ms for the accelerator, two workers need 2 ms a batch",
    ),
    Patient(
        name="lbfgs-closure",
        group="healthy",
        bounds=_("cpu"),
        causes=_("model.compute"),
        remedies=NOTHING,
        truth="the optimizer calls the model about ten times for each batch of a table in memory",
    ),
    Patient(
        name="too-short",
        group="healthy",
        bounds=_("inconclusive"),
        causes=_("none"),
        remedies=NOTHING,
        wait_tolerance=None,
        truth="three steps",
    ),
]

DECOYS = [
    Patient(
        name="sleeping-loader",
        group="decoy",
        bounds=_("balanced"),
        causes=_("input.wait"),
        findings=_("loader-in-main"),
        remedies=_("workers-auto", "thread-prefetch"),
        twin="workers-auto",
        truth="24 ms asleep a batch in the main process: neither CPU nor storage",
    ),
    Patient(
        name="locked-loader",
        group="decoy",
        bounds=_("balanced"),
        causes=_("input.wait"),
        never=_("workers-auto"),
        truth="24 ms a batch inside one lock that all workers share",
    ),
    Patient(
        name="gzip-decoy",
        group="decoy",
        bounds=_("cpu"),
        causes=_("input.preprocess"),
        remedies=_("reencode-offline", "precompute-deterministic", "cache-decoded-ram", "more-cores"),
        twin="reencode-offline",
        truth="files that the page cache holds, unpacked by gzip; raw, they need no CPU",
    ),
    Patient(
        name="foreign-load",
        group="decoy",
        bounds=_("cpu"),
        causes=_("input.preprocess"),
        strangers=2,
        truth="12 ms of thread CPU a batch while two strangers spin on the same two cores",
    ),
    Patient(
        name="prefetch-thread",
        group="decoy",
        bounds=_("balanced"),
        causes=_("none"),
        remedies=NOTHING,
        truth="a thread waits 13 ms a batch, the loop takes each from a queue that is never empty",
    ),
]

SHAPES = [
    Patient(
        name="get-batch",
        group="shape",
        bounds=_("cpu"),
        causes=_("input.preprocess", "host.python"),
        twin="precompute-deterministic",
        truth="no loader: a function encodes 12,000 letters in Python for each step",
    ),
    Patient(
        name="generator-source",
        group="shape",
        bounds=_("cpu"),
        causes=_("input.preprocess", "host.python"),
        remedies=_("thread-prefetch"),
        twin="thread-prefetch",
        truth="no loader: a generator sorts 130,000 numbers for each step, then the step sleeps 9 ms",
    ),
    Patient(
        name="inference-only",
        group="shape",
        bounds=_("cpu"),
        causes=_("input.preprocess"),
        findings=_("loader-in-main"),
        remedies=_("workers-auto"),
        twin="workers-auto",
        truth="loader-in-main without backward and optimizer",
    ),
    Patient(
        name="gradient-accumulation",
        group="shape",
        bounds=_("cpu"),
        causes=_("input.preprocess"),
        findings=_("loader-in-main"),
        remedies=_("workers-auto"),
        twin="workers-auto",
        truth="loader-in-main with one optimizer step in four batches",
    ),
    Patient(
        name="two-optimizers",
        group="shape",
        bounds=_("cpu"),
        causes=_("input.preprocess"),
        findings=_("loader-in-main"),
        remedies=_("workers-auto"),
        twin="workers-auto",
        truth="loader-in-main with two optimizer steps a batch",
    ),
    Patient(
        name="evaluation-heavy",
        group="shape",
        bounds=_("cpu"),
        causes=_("host.evaluation", "model.compute"),
        truth="each epoch of sixty steps is followed by 200 batches of evaluation, which take longer",
    ),
]

PATIENTS = (*AILING, *HEALTHY, *DECOYS, *SHAPES)
