"""Reads of the data set from disks and over the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from ..analyse.host import Disks, measure_disks
from ..analyse.inputs import fetches_of
from ..analyse.reads import (
    LARGE_READ_BYTES,
    UNSURE,
    Pass,
    Reads,
    are_small_files,
    is_mapped,
    is_overread,
    passes_of,
    streams_of,
)
from ..analyse.shares import NEARLY_ALL
from ..analyse.steps import span_of
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Inputs, Proposal, Scenario
from ..model.report import Evidence, Fix
from .parts.entry import Entry, dataloader_loop, given, spread, timed_fetches
from .parts.facts import hot_files_of, operations_of, place_of, step_share
from .parts.loader_remedies import WORKERS, more_workers
from .parts.memory_room import memory_left
from .parts.reading import STAGE, TASK_IO, judge_reads, read_evidence
from .parts.waits import LOOKS_AT_LEAST, PAYS, dearest, making_s, starved, wait_evidence, waits

Factor = tuple[float, float, float]

# storage-latency-bound
# per fault without it: cautious, some windows, one page (chosen)
NARROW_BYTES = (2 << 20, 256 << 10, 4 << 10)
# of the sleep, if pages are asked for ahead (measured: 30 MB cold, `pread` 49 ms, memory map 212)
MAPPED_LEFT = (0.5, 0.26, 0.02)
HINTED_LEFT = (1.0, 0.5, 0.4)  # of the sleep per read, if hinted at [measured]; none spared with O_DIRECT
HINTED_BYTES = 32 << 10  # per read up to which hints halved the sleep; at 64 KiB three quarters were left
SAMPLES_AT_LEAST = 4  # per batch: hints need something ahead to hint at (chosen)
FAST_READ_S = (3e-4, 1.2e-4, 8e-5)  # a small read from a local NVMe disk (chosen; data sheets: 60 to 100 us)
NARROW = "mapped.madvise(mmap.MADV_RANDOM)                 # once: no readahead around single rows\n"
MAPPED_FIX = """\
for i in indices:                                    # in __getitems__, before the batch is put together
    start = offset(i) // mmap.PAGESIZE * mmap.PAGESIZE
    mapped.madvise(mmap.MADV_WILLNEED, start, length(i) + offset(i) - start)"""
READ_FIX = """\
for i in indices:                                    # in __getitems__, before the first read
    os.posix_fadvise(fd, offset(i), length(i), os.POSIX_FADV_WILLNEED)"""
HINT = Proposal(
    id="readahead-hints",
    title="tell the kernel what a batch will read before reading it",
    fix=Fix("hint at a batch's samples, then read them", READ_FIX),
    effort="hours",
    risk="reads past the page cache (O_DIRECT) are not helped by hints",
    basis="bound",
)
NVME = replace(STAGE, title="copy the data set to a local NVMe disk before training")


def storage_latency_bound(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the loop waits for reads, and the storage is not known to be at its limit."""
    if not starved(diagnosis, "input.storage", diagnosis.inputs.storage):
        return None
    reads = judge_reads(diagnosis)
    if reads.pace not in ("latency", *UNSURE) and not is_overread(diagnosis.inputs, reads):
        return None
    proposals = more_workers(diagnosis, streams_of(reads)) + _hints(diagnosis, reads)
    wasted = are_small_files(diagnosis.inputs) or is_overread(diagnosis.inputs, reads)
    if not wasted and reads.each_s is not None and reads.each_s >= 2 * FAST_READ_S[1]:
        left = [min(1.0, read_s / reads.each_s) for read_s in FAST_READ_S]
        proposals.append(replace(NVME.at(place_of(diagnosis)), factor=_left(diagnosis, left)))
    evidence = wait_evidence(diagnosis) + read_evidence(diagnosis, reads)
    return Finding("storage-latency-bound", "input.storage", evidence, proposals, place_of(diagnosis))


def _hints(diagnosis: Diagnosis, reads: Reads) -> list[Proposal]:
    """Remedies that request a batch's pages before the first read."""
    inputs = diagnosis.inputs
    mapped = is_mapped(inputs)
    small = reads.each_bytes is not None and reads.each_bytes <= HINTED_BYTES
    hot = hot_files_of(diagnosis)
    if hot is not None and hot.direct:
        return []  # O_DIRECT bypasses the page cache, which is all that hints fill
    if not mapped and (not small or inputs.samples < SAMPLES_AT_LEAST):
        return []
    snippet = MAPPED_FIX if mapped else READ_FIX
    factor = _left(diagnosis, MAPPED_LEFT if mapped else HINTED_LEFT)
    if is_overread(inputs, reads):
        factor, snippet = _narrowed(diagnosis, reads.each_bytes or 0.0), NARROW + MAPPED_FIX
    return [replace(HINT.at(place_of(diagnosis), snippet), factor=factor)]


def _narrowed(diagnosis: Diagnosis, each_bytes: float) -> Factor:
    """Speedups without readahead around each fault, which costs sleep and the kernel's CPU time."""
    scenario, inputs = given(diagnosis.scenario), diagnosis.inputs
    kernel = min(1.0, inputs.system / inputs.cpu) if inputs.cpu > 0 else 0.0
    left = [min(1.0, size / max(each_bytes, 1.0)) for size in NARROW_BYTES]
    return spread(scenario, *(Change(storage=part, cpu=1 - (1 - part) * kernel) for part in left))


def _left(diagnosis: Diagnosis, shares: Sequence[float]) -> Factor:
    """Speedups with these shares of the sleep in reads left: at worst, likely, at best."""
    return spread(given(diagnosis.scenario), *(Change(storage=one) for one in shares))


# storage-bandwidth-bound
FAST_BYTES_PER_S = (1.5e9, 3e9, 7e9)  # local NVMe disks: half the lower end, both ends (data sheets)
WORTH_MOVING = 0.7  # of a fast disk's rate, from which a faster disk gains little (chosen)
NVME_OR_MEMORY = replace(STAGE, title="copy the data set to a local NVMe disk, or into memory if it fits")


def storage_bandwidth_bound(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the loop waits for reads that the storage cannot deliver any faster."""
    if not starved(diagnosis, "input.storage", diagnosis.inputs.storage):
        return None
    reads = judge_reads(diagnosis)
    if reads.pace == "unseen":
        return Abstention(
            "storage-bandwidth-bound", "sizes of the reads that reached a disk, and the disks' counters"
        )
    if reads.pace not in ("device", "limit") or is_overread(diagnosis.inputs, reads):
        return None
    inputs, proposals = diagnosis.inputs, []
    rate = (inputs.storage_bytes or 0.0) / max(inputs.storage, 1e-9) * reads.readers
    if not are_small_files(inputs) and 0 < rate < WORTH_MOVING * FAST_BYTES_PER_S[1]:
        left = [min(1.0, rate / fast) for fast in FAST_BYTES_PER_S]
        proposals.append(replace(NVME_OR_MEMORY.at(place_of(diagnosis)), factor=_left(diagnosis, left)))
    if not given(diagnosis.loader).num_workers:
        title = "read the next batch while the model works on this one"
        proposals += more_workers(diagnosis, reads.readers, title)
    evidence = wait_evidence(diagnosis) + read_evidence(diagnosis, reads)
    return Finding("storage-bandwidth-bound", "input.storage", evidence, proposals, place_of(diagnosis))


# remote-storage-latency
SAMPLES_PER_REQUEST = (2.0, 4.0, 16.0)  # that a larger request is assumed to bring (chosen)
LOCAL_READ_S = (2e-3, 1.2e-4, 8e-5)  # a small local read: busy cloud volume, NVMe, NVMe at its best (chosen)
STREAMED_LEFT = (0.5, 0.2, 0.05)  # of the wait, when shards are fetched ahead (chosen)
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


def remote_storage_latency(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the loop waits for data from a network."""
    inputs = diagnosis.inputs
    if inputs.blocked_samples < LOOKS_AT_LEAST and starved(diagnosis, "input.wait", inputs.wait):
        return Abstention("remote-storage-latency", "what fetching threads sleep on (wait channels)")
    if not starved(diagnosis, "input.network", inputs.network):
        return None
    each_s = inputs.network / max(inputs.samples, 1.0)
    evidence = [
        *wait_evidence(diagnosis),
        Evidence("wait for the network per sample", "network_wait_s", each_s, "wait channels"),
    ]
    hot = hot_files_of(diagnosis)
    for kind in sorted(hot.mounts) if hot is not None else []:
        evidence.append(Evidence(f"the data set's files lie on {kind}", "", None, "mountinfo"))
    proposals = [*more_workers(diagnosis), *_nearer(diagnosis, each_s)]
    return Finding("remote-storage-latency", "input.network", evidence, proposals, place_of(diagnosis))


def _nearer(diagnosis: Diagnosis, each_s: float) -> list[Proposal]:
    """Remedies: fewer round trips, or a copy on a local disk, made before or during training."""
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


# small-files
FILE_SHARE = 0.4  # of what a batch costs, asleep in storage or in the kernel (chosen)
SAME_FILES = 4  # opened over and over: a container opened per sample, not many small files (chosen)
SIDE_FILES = 1.8  # opens per sample, from which each sample has a second file (chosen)
ASLEEP_PACKED = (1.0, 0.4, 0.1)  # of the sleep per sample: read at random, in order [measured], whole batches
CPU_PACKED = (0.6, 0.3, 0.1)  # of the kernel's CPU per sample [measured: 0.5 and 0.57 warm, 0.14 cold]
ALIKE = (1, 1, 2)  # CPU spared for each second of the kernel's: at best, Python's own goes too (chosen)
SHARDS = """\
with tarfile.open("shard-000.tar", "w") as shard:         # some 100 MB each, samples already shuffled
    for k, path in enumerate(paths): shard.add(path, f"{k:08d}{path.suffix}")"""
PACK = Proposal(
    id="pack-shards",
    title="pack the samples into large files and read those from front to back",
    fix=Fix("write shards once (WebDataset, MDS, LMDB, TFRecord)", SHARDS),
    apply="convert",
    effort="hours",
    risk="order: shuffle shards and a buffer; each worker needs shards of its own",
    basis="bound",
)
REMEMBER = Proposal(
    id="cache-metadata",
    title="read labels and file lists once only",
    fix=Fix(
        "keep what the side files hold in memory",
        "self.labels = {path: read_label(path) for path in paths}     # once, in __init__",
    ),
    effort="hours",
    risk="assumes that all but one of a sample's files are small enough to be kept",
)


def small_files(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the loop waits for small files, cold or warm."""
    inputs, hot = diagnosis.inputs, hot_files_of(diagnosis)
    cause = dearest(diagnosis, ("input.storage", "input.preprocess"))
    per_file_s = inputs.storage + _system(inputs) * (inputs.cpu - inputs.collate)
    pays = waits(diagnosis) and diagnosis.causes.get(cause, 1.0) >= PAYS
    if not pays or per_file_s < FILE_SHARE * making_s(inputs):
        return None
    if inputs.opens is None or inputs.read_bytes is None:
        return Abstention("small-files", "opens and bytes read per batch")
    each_bytes = inputs.read_bytes / max(inputs.opens, 1e-9)
    opens = inputs.opens / max(inputs.samples, 1.0)
    again = hot is not None and hot.files <= SAME_FILES
    if opens < NEARLY_ALL or each_bytes >= LARGE_READ_BYTES or again:
        return None
    reads = judge_reads(diagnosis)
    known = (
        ("files opened per sample", "opens_per_sample", opens, "open events"),
        ("bytes read per open", "bytes_per_open", each_bytes, "task io, open events"),
        ("share of the fetch's CPU that is the kernel's", "fetch_system_share", _system(inputs), "getrusage"),
    )
    evidence = [Evidence(*one) for one in known] + wait_evidence(diagnosis)
    evidence += read_evidence(diagnosis, reads) if inputs.storage_bytes else []
    streams = streams_of(reads) if inputs.storage_bytes else None
    proposals = _files_proposals(diagnosis, opens) + more_workers(diagnosis, streams)
    return Finding("small-files", cause, evidence, proposals, place_of(diagnosis))


def _system(inputs: Inputs) -> float:
    """The kernel's share of the CPU time of fetching, without collating, which touches fresh memory."""
    fetching = inputs.cpu - inputs.collate
    return max(0.0, min(inputs.system - inputs.collate, fetching)) / fetching if fetching > 0 else 0.0


def _files_proposals(diagnosis: Diagnosis, opens: float) -> list[Proposal]:
    """Remedies: pack files into large ones; keep the content of side files in memory, if there are any."""
    scenario, place = given(diagnosis.scenario), place_of(diagnosis)
    inputs = diagnosis.inputs  # without the kernel's CPU for cold reads, which goes with the reads
    system = max(0.0, _system(inputs) * (inputs.cpu - inputs.collate) - inputs.reading) / inputs.fetching
    packed = [Change(storage=asleep, cpu=1 - (1 - cpu) * min(1.0, times * system))
              for asleep, cpu, times in zip(ASLEEP_PACKED, CPU_PACKED, ALIKE, strict=True)]  # fmt: skip
    proposals = [replace(PACK.at(place), factor=spread(scenario, *packed))]
    if opens >= SIDE_FILES:
        kept = Change(storage=1 / opens, cpu=1 - (1 - 1 / opens) * system)
        proposals.append(replace(REMEMBER.at(place), factor=spread(scenario, Change(), kept, kept)))
    return proposals


# page-cache-misses
STILL = 0.5  # of the first epoch's bytes from storage, from which nothing is taken to stay cached (chosen)
GONE = 0.1  # of them: only the first epoch was cold (chosen)
FITS = 0.7  # of the memory left (chosen)
READ_MARK_BYTES = 65536  # per batch from storage, below which an epoch does not count as cold (chosen)
FILES_KNOWN = 64  # names kept at most; if fewer are kept, they are all the files
PRELOAD = """\
subprocess.run(["cp", "-r", data, "/dev/shm/data"], check=True)    # once, before the data set is built
dataset = Photos("/dev/shm/data")                                  # all workers share it"""
PART = """\
kept = {path: path.read_bytes() for path in paths[: int(share * len(paths))]}   # before workers start
data = kept.get(path) or path.read_bytes()                                      # in __getitem__"""
HOLD_ALL = Proposal(
    id="cache-bytes-ram",
    title="read the data set into memory once, before training",
    fix=Fix("copy it to memory that all workers share", PRELOAD),
    change=Change(storage=0.0),
    apply="manual",
    risk="the start takes as long as reading everything once; memory for all",
)
HOLD_PART = Proposal(
    id="cache-fraction-ram",
    title="keep a fixed part of the data set in memory",
    fix=Fix("hold the first files, and read only the others", PART),
    apply="manual",
    effort="hours",
    risk="memory that nothing else may want; left to itself the kernel keeps next to nothing",
)
MORE_MEMORY = Proposal(
    id="more-ram",
    title="take a machine whose memory holds the data set",
    fix=Fix("a machine, or a limit, with room for the data and for the job"),
    apply="admin",
    effort="days",
)


def page_cache_misses(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when later epochs read from storage again; without remedies if only the first one did."""
    table = fetches_of(diagnosis.profile, given(diagnosis.loader).key)
    passes = passes_of(table, given(diagnosis.loop)) if table is not None else []
    asleep = starved(diagnosis, "input.storage", diagnosis.inputs.storage)
    if len(passes) < 2:
        return (
            Abstention("page-cache-misses", "a second epoch: in its first, any training reads cold data")
            if asleep
            else None
        )
    first, later = passes[0], fmean([one.stored for one in passes[1:]])
    if first.stored >= READ_MARK_BYTES and later < GONE * first.stored and len(diagnosis.phases) > 1:
        return Finding(
            "page-cache-misses",
            "input.storage",
            [*_evidence(passes), Evidence("later epochs come from memory")],
        )
    if not asleep or later < STILL * max(first.stored, READ_MARK_BYTES):
        return None
    size, left = _size(diagnosis, first), memory_left(diagnosis)
    if size is None or left is None:
        return Abstention("page-cache-misses", "the size of the data set, and the memory left for it")
    sizes = [
        Evidence("bytes of the data set", "dataset_bytes", size, "task io, file sizes"),
        Evidence("bytes of memory left", "memory_left_bytes", left, "meminfo, control group"),
    ]
    evidence = _evidence(passes) + sizes + wait_evidence(diagnosis)
    return Finding(
        "page-cache-misses",
        "input.storage",
        evidence,
        _cache_proposals(diagnosis, size, left),
        place_of(diagnosis),
    )


def _evidence(passes: list[Pass]) -> list[Evidence]:
    later = passes[1:]
    shares = [one.missed for one in later if one.missed is not None]
    known = (
        ("bytes per batch from storage, in the first epoch", "first_epoch_bytes", passes[0].stored),
        ("bytes per batch from storage, later", "later_epochs_bytes", fmean([one.stored for one in later])),
        ("share of the bytes read later that memory had not kept", "cache_miss_share",
         fmean(shares) if shares else None),
    )  # fmt: skip
    return [Evidence(*one, TASK_IO) for one in known if one[2] is not None]


def _size(diagnosis: Diagnosis, first: Pass) -> float | None:
    """Bytes of the data set, from bytes per sample; no more than its files have, if all are known."""
    loader, samples = given(diagnosis.loader), diagnosis.inputs.samples
    if not loader.dataset_length or not samples:
        return None
    size = max(first.read, first.stored) / samples * loader.dataset_length
    hot = hot_files_of(diagnosis)
    return min(size, hot.bytes) if hot is not None and hot.bytes and hot.files < FILES_KNOWN else size


def _cache_proposals(diagnosis: Diagnosis, size: float, left: float) -> list[Proposal]:
    """Remedies: the whole data set in memory if it fits, else a fixed part that stays there."""
    scenario, place = given(diagnosis.scenario), place_of(diagnosis)
    if size <= FITS * left:
        return [HOLD_ALL.at(place)]
    kept = FITS * left / size
    part = Change(storage=1 - kept)
    held = spread(scenario, Change(storage=1 - kept / 2), part, part)
    more = spread(scenario, part, Change(storage=0.1), Change(storage=0.0))
    return [replace(HOLD_PART.at(place), factor=held), replace(MORE_MEMORY, factor=more)]


# disk-contended
READ_SHARE = 0.2  # of the time to make a batch (chosen)
WRITE_SHARE = 0.02  # of the step (chosen)
ALONE_READ_S = (5e-4, 1.2e-4)  # a read from an idle disk: a cloud volume's, a local NVMe disk's (chosen)
ALONE_WRITE_S = (4e-3, 5e-4)  # a forced write to the same [the former measured]
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


def disk_contended(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the job waits for a disk that other processes keep busy."""
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
        return Abstention("disk-contended", "what the disks moved, and how much of it was the job's")
    if not disks.shared:
        return None
    known = (
        ("the job's share of what the disks move", "disk_job_share", disks.job_share),
        ("bytes per second that other processes move", "strangers_bytes_per_s", disks.strangers_bytes_per_s),
        ("share of time in which the disks had work", "disk_busy", disks.busy),
        ("mean number of requests in their queues", "disk_queue", disks.queue),
    )
    evidence = [Evidence(*one, "diskstats less task io") for one in known]
    evidence += wait_evidence(diagnosis) if reading else []
    saving = step_share(diagnosis, "checkpoint") >= step_share(diagnosis, "logging")
    cause = "input.storage" if reading else "host.checkpoint" if saving else "host.logging"
    proposal = _alone(diagnosis, scenario, disks)
    return Finding("disk-contended", cause, evidence, [proposal], place_of(diagnosis))


def _alone(diagnosis: Diagnosis, scenario: Scenario, disks: Disks) -> Proposal:
    """Without other processes the job has their bandwidth too, but no read or write gets faster than on an
    idle disk. A checkpoint that is not forced to the disk lands in memory first: only half of its blocked
    time counts."""
    share, reads = disks.job_share, judge_reads(diagnosis)
    calls = operations_of(diagnosis, "checkpoint") + operations_of(diagnosis, "logging")
    blocked_s = sum(one.total_s - one.cpu_s for one in calls)
    read, write = [1.0, 1.0], [1.0, 1.0]  # what is left likely and at best
    if reads.each_s and reads.each_bytes is not None:
        moving = reads.each_bytes / FAST_BYTES_PER_S[1]
        read = [min(1.0, (alone + moving) / reads.each_s) for alone in ALONE_READ_S]
    if blocked_s > 0:
        each_s = blocked_s / sum(one.count for one in calls)
        write = [min(1.0, alone / each_s) for alone in ALONE_WRITE_S]
    left = [((1 + share) / 2, 1.0)]
    left += [(max(share, one), max(share, other)) for one, other in zip(read, write, strict=True)]
    spared = [(one, scenario.shares.stored * (1 - other)) for one, other in left]
    changes = (Change(storage=one, checkpoint=1 - two / 2, logging=1 - two) for one, two in spared)
    return replace(ISOLATE, factor=spread(scenario, *changes))


FINDINGS = (
    Entry("input.storage", storage_latency_bound, needs=(timed_fetches,), remedies=(WORKERS, HINT, NVME)),
    Entry(
        "input.storage", storage_bandwidth_bound, needs=(timed_fetches,), remedies=(NVME_OR_MEMORY, WORKERS)
    ),
    Entry(
        "input.network",
        remote_storage_latency,
        needs=(timed_fetches,),
        remedies=(WORKERS, LARGER, MIRROR, STREAM),
    ),
    Entry("input.storage", small_files, needs=(timed_fetches,), remedies=(PACK, REMEMBER, WORKERS)),
    Entry(
        "input.storage",
        page_cache_misses,
        needs=(dataloader_loop,),
        remedies=(HOLD_ALL, HOLD_PART, MORE_MEMORY),
    ),
    Entry("input.storage", disk_contended, remedies=(ISOLATE,)),
)
