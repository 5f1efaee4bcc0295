"""Reads of the data set from disks and over the network; archives, HDF5 files and databases."""

from __future__ import annotations

from dataclasses import replace

from ..analyse.inputs import (
    LARGE_READ_BYTES,
    UNSURE,
    Reads,
    are_small_files,
    is_mapped,
    is_overread,
    judge_reads,
    streams_of,
)
from ..analyse.predict import CORES_FREE
from ..analyse.shares import ALL_BUT_NOISE, LARGE_PART, MOST, NOTICED
from ..model.diagnosis import Change, Diagnosis, Finding, Proposal
from ..model.report import Evidence, Fix
from .facts import (
    LOOKS_AT_LEAST,
    PAYS,
    TASK_IO,
    dearest,
    held_up,
    hot_files_of,
    making_s,
    place_of,
    starved,
    wait_evidence,
    waits,
)
from .lines import WRITE_LESS, lines_of, write_less
from .registry import finding, given, snippet, timed_fetches
from .remedies import MOSTLY, STAGE, WORKERS, each, left_of, more_workers, priced


def reads_of(diagnosis: Diagnosis) -> Reads:
    """How storage serves this data set."""
    inputs, host, step_s = diagnosis.inputs, diagnosis.host, diagnosis.step_s
    return judge_reads(diagnosis.profile, diagnosis.loader, inputs, host, step_s)


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
        found.append(Evidence("no thread was sampled asleep: only bytes say that the waits are for storage"))
    if judged.pace in UNSURE:
        found.append(Evidence("not measured whether storage serves more at once: twice as many is assumed"))
    return found


# storage-latency-bound
NARROW_BYTES = (2 << 20, 256 << 10, 4 << 10)  # per fault without it: a large window, some windows, one page
# of the sleep, if pages are asked for ahead (measured: 30 MB cold, `pread` 49 ms, memory map 212)
MAPPED_LEFT = (0.5, 0.26, 0.02)
HINTED_LEFT = (1.0, 0.5, 0.4)  # of the sleep per read, if hinted at [measured]; none spared with O_DIRECT
HINTED_BYTES = 32 << 10  # per read up to which hints halved the sleep; at 64 KiB three quarters were left
# A small local read: from a busy cloud volume (chosen), from a local NVMe disk, from one at its best (data
# sheets: 60 to 100 us, without the kernel)
LOCAL_READ_S = (2e-3, 1.2e-4, 8e-5)
NARROW = "import mmap; MAPPED.madvise(mmap.MADV_RANDOM)  # no readahead around\n"
MAPPED_FIX = snippet("storage", "MAPPED_FIX")
READ_FIX = snippet("storage", "READ_FIX")
HINT = Proposal(
    id="readahead-hints",
    title="tell the kernel what a batch will read before reading it",
    fix=Fix("hint at a batch's samples, then read them", READ_FIX),
    effort="hours",
    risk="reads past the page cache (O_DIRECT) are not helped by hints",
    basis="bound",
)
NVME = replace(STAGE, title="copy the data set to a local NVMe disk before training")


@finding("input.storage", WORKERS, HINT, NVME, WRITE_LESS, needs=(timed_fetches,))
def storage_latency_bound(diagnosis: Diagnosis) -> Finding | None:
    """Fires when the loop waits for reads, and the storage is not known to be at its limit; or for writes."""
    inputs, scenario, place = diagnosis.inputs, given(diagnosis.scenario), place_of(diagnosis)
    if not starved(diagnosis, "input.storage", inputs.storage):
        return None
    reads = reads_of(diagnosis)
    overread = is_overread(inputs, reads)
    if inputs.written:
        cure, spent = write_less(diagnosis)
        proposals = [cure, *more_workers(diagnosis, streams_of(reads))]
        evidence = [*wait_evidence(diagnosis), spent]
        return Finding("storage-latency-bound", "input.storage", evidence, proposals, cure.fix.location)
    if reads.pace not in ("latency", *UNSURE) and not overread:
        return None
    proposals = more_workers(diagnosis, streams_of(reads)) + _hints(diagnosis, reads)
    wasted = overread or are_small_files(inputs)
    if not wasted and reads.each_s is not None and reads.each_s >= 2 * LOCAL_READ_S[1]:
        left = [min(1.0, read_s / reads.each_s) for read_s in LOCAL_READ_S]
        proposals.append(priced(NVME.at(place), scenario, *each(storage=left)))
    evidence = wait_evidence(diagnosis) + read_evidence(diagnosis, reads)
    return Finding("storage-latency-bound", "input.storage", evidence, proposals, place)


def _hints(diagnosis: Diagnosis, reads: Reads) -> list[Proposal]:
    """Remedies that request a batch's pages before the first read."""
    inputs, scenario, hot = diagnosis.inputs, given(diagnosis.scenario), hot_files_of(diagnosis)
    if hot is not None and hot.direct:
        return []  # O_DIRECT bypasses the page cache, which is all that hints fill
    mapped, size = is_mapped(inputs), reads.each_bytes or 0.0
    if is_overread(inputs, reads):  # readahead around each fault costs sleep and the kernel's CPU time
        kernel = min(1.0, inputs.system / inputs.cpu) if inputs.cpu > 0 else 0.0
        left = [min(1.0, narrow / max(size, 1.0)) for narrow in NARROW_BYTES]
        changes, snippet = each(storage=left, cpu=left_of(kernel, left)), NARROW + MAPPED_FIX
    elif mapped:
        changes, snippet = each(storage=MAPPED_LEFT), MAPPED_FIX
    elif 0 < size <= HINTED_BYTES and inputs.samples > 1:
        changes, snippet = each(storage=HINTED_LEFT), READ_FIX
    else:
        return []
    return [priced(HINT.at(place_of(diagnosis), snippet), scenario, *changes)]


# storage-bandwidth-bound
FAST_BYTES_PER_S = (1.5e9, 3e9, 7e9)  # local NVMe disks: half the lower end, both ends (data sheets)
NVME_OR_MEMORY = replace(STAGE, title="copy the data set to a local NVMe disk, or into memory if it fits")


@finding("input.storage", NVME_OR_MEMORY, WORKERS, needs=(timed_fetches,))
def storage_bandwidth_bound(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when the loop waits for reads that the storage cannot deliver any faster."""
    inputs, proposals, place = diagnosis.inputs, [], place_of(diagnosis)
    if not starved(diagnosis, "input.storage", inputs.storage):
        return None
    reads = reads_of(diagnosis)
    if reads.pace == "unseen":
        return "sizes of the reads that reached a disk, and the disks' counters"
    if reads.pace not in ("device", "limit") or is_overread(inputs, reads):
        return None
    rate = (inputs.storage_bytes or 0.0) / max(inputs.storage, 1e-9) * reads.readers
    if rate and not are_small_files(inputs):
        left = [min(1.0, rate / fast) for fast in FAST_BYTES_PER_S]
        proposals.append(priced(NVME_OR_MEMORY.at(place), given(diagnosis.scenario), *each(storage=left)))
    if not given(diagnosis.loader).num_workers:
        title = "read the next batch while the model works on this one"
        proposals += more_workers(diagnosis, reads.readers, title)
    evidence = wait_evidence(diagnosis) + read_evidence(diagnosis, reads)
    return Finding("storage-bandwidth-bound", "input.storage", evidence, proposals, place)


# remote-storage-latency
SAMPLES_PER_REQUEST = (2.0, 4.0, 16.0)  # that a larger request is assumed to bring (chosen)
LARGER = Proposal(
    id="bigger-requests",
    title="ask for several samples in one request",
    fix=Fix("fetch a batch, or a shard, at once", snippet("storage", "REQUEST")),
    effort="hours",
    risk="nothing is gained where the transfer, not the round trip, takes the time",
    basis="bound",
)
MIRROR = replace(STAGE, id="local-mirror", title="copy the data set to a local disk first")
STREAM = Proposal(
    id="remote-streaming",
    title="stream large shards ahead of the training, and keep them in a local cache",
    fix=Fix("pack the samples into shards and stream those", snippet("storage", "STREAM")),
    apply="convert",
    effort="days",
    risk="order: shuffle shards and a buffer; each worker needs shards of its own",
    basis="bound",
)


@finding("input.network", WORKERS, LARGER, MIRROR, STREAM, needs=(timed_fetches,))
def remote_storage_latency(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when the loop waits for data from a network."""
    inputs, scenario, place = diagnosis.inputs, given(diagnosis.scenario), place_of(diagnosis)
    if inputs.blocked_samples < LOOKS_AT_LEAST and starved(diagnosis, "input.wait", inputs.wait):
        return "what fetching threads sleep on (wait channels)"
    if not starved(diagnosis, "input.network", inputs.network):
        return None
    each_s, hot = inputs.network / max(inputs.samples, 1.0), hot_files_of(diagnosis)
    evidence = wait_evidence(diagnosis)
    evidence.append(Evidence("wait for the network per sample", "network_wait_s", each_s, "wait channels"))
    for kind in sorted(hot.mounts) if hot is not None else []:
        evidence.append(Evidence(f"the data set's files lie on {kind}", "", None, "mountinfo"))
    ways = [(LARGER, [1 / min(count, inputs.samples) for count in SAMPLES_PER_REQUEST])]
    if each_s >= 2 * LOCAL_READ_S[1]:
        ways += [(MIRROR, [min(1.0, read_s / each_s) for read_s in LOCAL_READ_S]), (STREAM, [*MOSTLY])]
    line = lines_of(diagnosis).hottest  # it asks: its CPU goes with the requests
    asking = 1.0 if line is None or line.share < MOST or line.cpu_share is None else line.cpu_share
    most = Change(cpu=1 - asking, network=0, wait=0, ipc=0, startup=0, cores=CORES_FREE)
    proposals = more_workers(diagnosis)
    for remedy, left in ways[inputs.samples <= 1 :]:
        changes = each(network=left, cpu=left_of(asking, left))
        proposals.append(priced(remedy.at(place), scenario, *changes, most=most))
    return Finding("remote-storage-latency", "input.network", evidence, proposals, place)


# small-files
SAME_FILES = 4  # opened over and over: a container opened per sample, not many small files (chosen)
# Of the sleep and of the kernel's CPU per sample: read at random, in order [measured], whole batches.
PACKED_LEFT = (1.0, 0.4, 0.1)
PACK = Proposal(
    id="pack-shards",
    title="pack the samples into large files and read those from front to back",
    fix=Fix("write shards once (WebDataset, MDS, LMDB, TFRecord)", snippet("storage", "SHARDS")),
    apply="convert",
    effort="hours",
    risk="order: shuffle shards and a buffer; each worker needs shards of its own",
    basis="bound",
)


@finding("input.storage", PACK, WORKERS, needs=(timed_fetches,))
def small_files(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when the loop waits for small files, cold or warm."""
    inputs, hot, place = diagnosis.inputs, hot_files_of(diagnosis), place_of(diagnosis)
    cause = dearest(diagnosis, ("input.storage", "input.preprocess"))
    # the kernel's CPU time, without that of collating, which touches fresh memory
    system = max(0.0, min(inputs.system, inputs.cpu) - inputs.collate)
    pays = waits(diagnosis) and diagnosis.causes.get(cause, 1.0) >= PAYS
    if not pays or inputs.written or inputs.storage + system < LARGE_PART * making_s(inputs):
        return None
    if inputs.opens is None or inputs.read_bytes is None:
        return "opens and bytes read per batch"
    each_bytes = inputs.read_bytes / max(inputs.opens, 1e-9)
    opens = inputs.opens / max(inputs.samples, 1.0)
    again = hot is not None and hot.files <= SAME_FILES
    if opens < ALL_BUT_NOISE or each_bytes >= LARGE_READ_BYTES or again:
        return None
    share = system / max(inputs.cpu - inputs.collate, 1e-12)
    evidence = [
        Evidence("files opened per sample", "opens_per_sample", opens, "open events"),
        Evidence("bytes read per open", "bytes_per_open", each_bytes, "task io, open events"),
        Evidence("share of the fetch's CPU that is the kernel's", "fetch_system_share", share, "getrusage"),
        *wait_evidence(diagnosis),
    ]
    reads = reads_of(diagnosis)
    evidence += read_evidence(diagnosis, reads) if inputs.storage_bytes else []
    streams = streams_of(reads) if inputs.storage_bytes else None
    # without the kernel's CPU for cold reads, which goes with the reads
    opening = min(1.0, max(0.0, system - inputs.reading) / inputs.fetching)
    scenario = given(diagnosis.scenario)
    packed = each(storage=PACKED_LEFT, cpu=left_of(opening, PACKED_LEFT))
    proposals = [priced(PACK.at(place), scenario, *packed)]
    return Finding("small-files", cause, evidence, proposals + more_workers(diagnosis, streams), place)


# container-format-misuse
OPEN_ONCE = Proposal(
    id="open-once-per-worker",
    title="open the container once in each worker and keep it open",
    fix=Fix("open at the first sample, not at every one", snippet("storage", "ONCE")),
    risk="never hand an open HDF5 or zip file to a forked worker",
)


@finding("input.preprocess", OPEN_ONCE, needs=(timed_fetches,))
def container_format_misuse(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when opening containers takes a large share of a batch."""
    inputs, place = diagnosis.inputs, place_of(diagnosis)
    if not held_up(diagnosis):
        return None
    if inputs.containers is None:
        return "openings of container files inside fetches"
    openings = inputs.containers / max(inputs.samples, 1.0)
    share = inputs.container / making_s(inputs)
    if openings < MOST or share < NOTICED:  # neighbours in a batch may share one
        return None
    known = (
        ("container files opened per sample", "containers_per_sample", openings),
        ("time to open one", "container_open_s", inputs.container / (inputs.containers or 1.0)),
        ("share of a batch's cost that opening takes", "container_share", share),
    )
    evidence = [Evidence(*one, "hook on the container's constructor") for one in known]
    asleep = min(inputs.storage, max(0.0, inputs.container - inputs.container_cpu))
    spared = Change(
        cpu=max(0.0, 1 - inputs.container_cpu / inputs.fetching),
        storage=1 - asleep / inputs.storage if inputs.storage > 0 else 1.0,
    )
    cause = dearest(diagnosis, ("input.preprocess", "input.storage"))
    proposals = [replace(OPEN_ONCE.at(place), change=spared)]
    return Finding("container-format-misuse", cause, evidence + wait_evidence(diagnosis), proposals, place)
