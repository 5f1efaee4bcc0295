"""Splits what a batch costs its maker, a loader or the loop itself: CPU, run queue, storage, waits.

Then what it costs to move the batch to the loop, and how storage serves the data set's reads: one at a time,
or as fast as the device or a limit allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from ..model.diagnosis import BatchCost, HostLoad, Inputs, Step
from ..model.loops import FetchTable, Loader, Loop, Making, Payload
from ..model.profile import Profile
from .hot_lines import LineShare, forced_lines
from .loop_cpu import background
from .memory import READ_S_PER_BYTE, paging_s
from .shares import MOST, NEARLY_ALL, NOTICED
from .steps import SAMPLES_AT_LEAST, seconds_in, spaced, span_of, steps_in


def making_of(profile: Profile, loader: Loader | None) -> Making:
    """What hooks recorded of this loader's batches; an empty one where they recorded nothing."""
    key = loader.key if loader is not None else ""
    return next((one for one in profile.makings if one.loader == key), Making(key))


def epoch_draws_s(making: Making, loop: Loop | None) -> float:
    """Seconds that an epoch's beginning spends choosing indices, beyond as many usual draws."""
    epochs = len(loop.epochs.t) if loop is not None else 0
    return sum(making.first_draws_s) / epochs if epochs else 0.0


STORAGE = ("storage", "fault", "written")
NETWORK = ("network", "remote")
WAITS = ("sleep", "lock", "pipe", "poll", "other")
MADE = "made"  # a wait for a thread of the same process that computes the batch
READ_MARK_BYTES = 4096  # bytes from storage per batch; less counts as no read
BUCKET_S = 0.5  # length of a bucket of samples: one that ends in the stretch may begin before it
NOISE_S = 2e-5  # blocked time per batch that clock reading alone can leave


@dataclass(frozen=True)
class BlockedSplit:
    """How blocked time divides, by ``samples`` taken from outside; 0 = judged by bytes alone. ``made`` is
    waiting for a thread of the same process that computes the batch, None where that one was not sampled;
    ``written`` is the part of ``storage`` that waits for writes, 0 unless that is most of it."""

    storage: float
    network: float
    waits: dict[str, float]
    samples: int
    made: float | None = None
    written: float = 0.0


UNSEEN = BlockedSplit(0.0, 0.0, {"other": 1.0}, 0)


def fetches_of(profile: Profile, key: str) -> FetchTable | None:
    """The fetch table of one loader."""
    return next((table for table in profile.fetches if table.loader == key), None)


def steady_fetches(profile: Profile, loop: Loop | None, loader: Loader | None) -> FetchTable | None:
    """The loader's fetches, without the cores that unrelated threads of the process always use."""
    table = fetches_of(profile, loader.key) if loader is not None else None
    cores = background(profile, loop, loader.num_workers) if loader is not None else 0.0
    if table is None or not cores:
        return table
    pairs = zip(table.other_cpu_s, table.wall_s, strict=True)
    return replace(table, other_cpu_s=[max(0.0, other - cores * wall) for other, wall in pairs])


def rows_within(table: FetchTable, begin: float, end: float) -> list[int]:
    """The rows that fall into a stretch of time; all of them when hardly any does."""
    rows = [place for place, t in enumerate(table.t) if begin <= t <= end]
    return rows if len(rows) >= 4 else list(range(len(table.t)))


def looks_at(profile: Profile, loader: str, pid: int, begin: float, end: float) -> Counter[str]:
    """Samples, by state, between two instants: of the threads that fetch for a loader or, without one, of a
    process's training loop."""
    seen: Counter[str] = Counter()
    for blocked in profile.blocked:
        if blocked.loader == loader and (loader or blocked.pid == pid):
            for t, counts in zip(blocked.t, blocked.counts, strict=True):
                if begin <= t <= end:
                    seen.update(counts)
    return seen


def split_blocked(
    profile: Profile, table: FetchTable, rows: list[int], begin: float, end: float
) -> BlockedSplit:
    """Shares of blocked time by class: from samples of sleeping threads, else from byte counts."""
    loader = next((one for one in profile.loaders if one.key == table.loader), None)
    seen = looks_at(profile, table.loader, 0, begin - BUCKET_S, end)
    known = shares_of(seen, forced_lines(profile, loader, None))
    if known is not None:
        return known
    stored = fmean([table.storage_bytes[place] or 0 for place in rows])
    faults = fmean([table.major_faults[place] for place in rows])
    if stored > READ_MARK_BYTES or faults >= 1:
        return BlockedSplit(1.0, 0.0, {}, 0)
    return UNSEEN


def shares_of(seen: Mapping[str, int], forced: Sequence[LineShare] = ()) -> BlockedSplit | None:
    """Shares of what threads were seen to sleep in; None of too few samples. The share of ``forced`` lines
    waits for writes, too; where these are not most of storage, or not noticed, they count as reads."""
    total = sum(seen.get(name, 0) for name in (*STORAGE, *NETWORK, *WAITS, MADE))
    if total < 5:
        return None
    waits = {name: seen[name] / total for name in WAITS if seen.get(name)}
    storage, network = (sum(seen.get(name, 0) for name in names) for names in (STORAGE, NETWORK))
    made = seen[MADE] / total if MADE in seen else None
    written = max(seen.get("written", 0), min(1.0, sum(one.share for one in forced)) * storage)
    if written < max(MOST * storage, NOTICED * (total + seen.get("running", 0))):
        written = 0
    return BlockedSplit(storage / total, network / total, waits, total, made, written / total)


def measure_inputs(
    profile: Profile, table: FetchTable | None, begin: float, end: float, workers: int
) -> Inputs:
    """Means over the fetches of the steady window; all zero when none were seen."""
    if table is None or not table.t:
        return Inputs()
    rows = rows_within(table, begin, end)
    split = split_blocked(profile, table, rows, begin, end)
    blocked = fmean([_blocked(table, place, split) for place in rows])

    def known(column: Sequence[float | None]) -> float | None:
        values = [value for place in rows if place < len(column) and (value := column[place]) is not None]
        return fmean(values) if values else None

    def mean(column: Sequence[float | None]) -> float:
        return known(column) or 0.0

    busy = None
    span = table.t[rows[-1]] + table.wall_s[rows[-1]] - table.t[rows[0]]
    if len(rows) > 1 and workers and span > 0:  # of the workers' time between the first and the last fetch
        inside = table.seen / max(1, len(table.t)) * sum(table.wall_s[place] for place in rows)
        busy = min(1.0, inside / (workers * span))
    return Inputs(
        batches=len(rows),
        wall=mean(table.wall_s),
        cpu=mean(table.cpu_s),
        other_cpu=mean(table.other_cpu_s),
        system=mean(table.system_s),
        queue=fmean([table.runq_s[place] or 0.0 for place in rows]),
        reading=fmean([_reading(table, place, split) for place in rows]),
        collate=mean(table.collate_cpu_s),
        decode=mean(table.decode_s),
        storage=blocked * split.storage,
        written=blocked * split.written,
        network=blocked * split.network,
        wait=blocked * sum(split.waits.values()),
        waits={name: blocked * share for name, share in split.waits.items()},
        samples=mean(table.samples),
        storage_bytes=known(table.storage_bytes),
        read_bytes=known(table.read_bytes),
        reads=known(table.reads),
        major_faults=mean(table.major_faults),
        opens=known(table.opens),
        containers=known(table.containers),
        container=mean(table.container_s),
        container_cpu=mean(table.container_cpu_s),
        minor_faults=known(table.minor_faults),
        busy=busy,
        blocked_samples=split.samples,
    )


def _blocked(table: FetchTable, place: int, split: BlockedSplit) -> float:
    """Time asleep on anything but the process's own threads: a pool of theirs is CPU, not waiting."""
    left = _off_core(table, place) - _pooled(table, place, split)
    return left if left > NOISE_S else 0.0


def _off_core(table: FetchTable, place: int) -> float:
    """Time in which the fetching thread neither ran nor wanted to."""
    return max(0.0, table.wall_s[place] - table.cpu_s[place] - (table.runq_s[place] or 0.0))


def _reading(table: FetchTable, place: int, split: BlockedSplit) -> float:
    """The kernel's CPU for reads from storage, or for writes: all of its CPU except for mapping pages and for
    copying out of the page cache, which remain when the data is in memory."""
    if (table.storage_bytes[place] or 0) < READ_MARK_BYTES and not split.written:
        return 0.0
    system, faults = table.system_s[place], table.minor_faults[place] if table.minor_faults else None
    return max(0.0, system - READ_S_PER_BYTE * (table.read_bytes[place] or 0.0) - paging_s(system, faults))


def _pooled(table: FetchTable, place: int, split: BlockedSplit) -> float:
    """CPU that other threads of the process spent for the fetching thread while it waited for them.

    It waits for them only in a lock. While it sleeps in anything else, their CPU does not belong to the
    batch: OpenMP's threads, for example, spin for a while after each operator of the model.
    """
    waits = split.waits.get("lock", 0.0) + split.waits.get("other", 0.0) if split.samples else 1.0
    return max(0.0, min(_off_core(table, place) * waits, table.other_cpu_s[place]))


def works_of(table: FetchTable, split: BlockedSplit, rows: list[int]) -> tuple[BatchCost, ...]:
    """The measured batches as the replay wants them, net of waiting for a core."""
    works = []
    for place in rows:
        blocked = _blocked(table, place, split)
        collate = min(table.collate_cpu_s[place], table.cpu_s[place])
        fetching, reading = table.cpu_s[place] - collate, _reading(table, place, split)
        cpu = max(0.0, fetching - reading) + _pooled(table, place, split)
        works.append(_cost(cpu, blocked, split, collate, min(fetching, reading)))
    return tuple(works)


def _cost(
    cpu: float, blocked: float, split: BlockedSplit, collate: float = 0.0, reading: float = 0.0
) -> BatchCost:
    waits = blocked * sum(split.waits.values())
    return BatchCost(cpu, collate, reading, blocked * split.storage, blocked * split.network, waits)


KERNEL_S_PER_BYTE = 1.5e-9  # CPU of the kernel for what storage sends, at most (chosen, measured 0.7 to 0.9)


def split_waits(profile: Profile, loop: Loop, begin: float, end: float) -> BlockedSplit:
    """How the blocked time of a loop's thread divides, by samples from outside."""
    seen = looks_at(profile, "", loop.pid, begin - BUCKET_S, end)
    return shares_of(seen, forced_lines(profile, None, loop)) or UNSEEN


def disagreement(profile: Profile, loop: Loop | None, steps: list[Step]) -> float:
    """The difference between the loop's share of time awake by its own clocks and by samples from outside;
    0 where either is unknown."""
    if loop is None or not steps:
        return 0.0
    begin, end = span_of(steps)
    seen = looks_at(profile, "", loop.pid, begin, end - BUCKET_S)
    known = [step for step in steps if step.cpu is not None and step.queue is not None]
    wall = seconds_in(known)
    if seen.total() < SAMPLES_AT_LEAST or wall <= 0:
        return 0.0
    awake = sum(seconds_in(known, part) for part in ("cpu", "wait_cpu", "queue"))
    return abs(min(1.0, awake / wall) - seen["running"] / seen.total())


def with_feeders(split: BlockedSplit, busy: float, processes: bool) -> BlockedSplit:
    """Waiting in a lock for busy feeders, or at the pipe of a feeder process, counts as making batches, up to
    the share of time that feeders are on a core. The thread that wakes the loop may itself wait for those
    that compute: samples of it alone are too low."""
    waits = {one: split.waits.get(one, 0.0) for one in (("lock", "pipe") if processes else ("lock",))}
    asleep, seen = sum(waits.values()), split.made or 0.0
    made = max(seen, busy * (asleep + seen))
    left = (asleep + seen - made) / asleep if asleep > 0 else 0.0
    return replace(
        split, waits={**split.waits, **{one: left * each for one, each in waits.items()}}, made=made
    )


def own_works(steps: list[Step], split: BlockedSplit, read_bytes_per_s: float) -> tuple[BatchCost, ...]:
    """The batches as the replay wants them, net of waiting for a core."""
    return tuple(_work(step, split, read_bytes_per_s) for step in spaced(steps))


def _work(step: Step, split: BlockedSplit, read_bytes_per_s: float) -> BatchCost:
    cpu = min(step.wait, step.wait_cpu or 0.0)
    blocked = max(0.0, step.wait - cpu - step.wait_queue)
    making = cpu + blocked * (split.made or 0.0)
    kernel = max(0.0, (step.system or 0.0) - paging_s(step.system, step.faults))
    read = kernel if split.written else KERNEL_S_PER_BYTE * read_bytes_per_s * step.wall
    reading = min(making, kernel, read)
    return _cost(making - reading, blocked, split, reading=reading)


def own_inputs(steps: list[Step], split: BlockedSplit, read_bytes_per_s: float) -> Inputs:
    """The same as means per batch."""
    if not steps:
        return Inputs()
    works = [_work(step, split, read_bytes_per_s) for step in steps]
    blocked = fmean([max(0.0, step.wait - step.wait_queue - (step.wait_cpu or 0.0)) for step in steps])
    return Inputs(
        batches=steps_in(steps),
        wall=fmean([step.wait for step in steps]),
        cpu=fmean([one.on_core for one in works]),
        reading=fmean([one.reading for one in works]),
        queue=fmean([step.wait_queue for step in steps]),
        storage=fmean([one.storage for one in works]),
        written=blocked * split.written,
        network=fmean([one.network for one in works]),
        wait=fmean([one.wait for one in works]),
        waits={name: blocked * share for name, share in split.waits.items()},
        blocked_samples=split.samples,
    )


# A feeder thread of the worker pickles the batch. A tensor goes as the descriptor of shared memory, for which
# the loop asks one more thread of the worker, over a socket and with a challenge on either side
# [multiprocessing.resource_sharer].
# To receive a batch, and each tensor in it; to pickle them; to hand out a descriptor. Of the 36 runs with
# workers in tests/golden/accuracy, those with two tensors a batch took 0.70 and 0.28 ms (medians), the one
# with 200 took 28 and 7.3 ms; descriptors took a feeder's thread 0.25 ms by its schedstat.
RECEIVED_S, RECEIVED_TENSOR_S = 3.7e-4, 1.65e-4
PICKLED_S, PICKLED_TENSOR_S = 2e-4, 3.6e-5
HANDED_OUT_S = 2e-4
# loop CPU per byte that travels pickled through the pipe (measured: 10 MB in 6.1 ms)
PICKLED_S_PER_BYTE = 6e-10
# To hand one over, both sides together, on the machines of 25 of those runs: median, and how much slower the
# slowest was. A larger ratio has causes other than handing over.
HANDED_S, SLOWER = 2.4e-4, 2.5


def moving_of(
    payload: Payload, steps: list[Step], workers: int, handed_s: float | None
) -> tuple[float, float, float]:
    """CPU seconds per batch: of the loop, of the worker, and the worker's part that overlaps its next fetch.
    Measured with workers; without, estimated from a batch's contents and ``handed_s``, the measured time to
    hand over a descriptor on this machine."""
    pickled = PICKLED_S_PER_BYTE * payload.other_bytes
    receive = RECEIVED_S + RECEIVED_TENSOR_S * payload.tensors + pickled
    hand_out = HANDED_OUT_S * payload.tensors
    if workers:
        known = [step.wait_cpu for step in steps if step.wait_cpu is not None]
        hand_out *= payload.serialise_cpu_s > 0  # a thread of the loop's own process sends nothing
        return (median(known) if known else receive), payload.serialise_cpu_s + hand_out, hand_out
    send = PICKLED_S + PICKLED_TENSOR_S * payload.tensors + 2 * pickled + hand_out
    slow = min(SLOWER, max(1 / SLOWER, (handed_s or HANDED_S) / HANDED_S))
    return slow * receive, slow * send, slow * hand_out


# the usual readahead window; larger, and transfer is what costs (Linux's read_ahead_kb)
LARGE_READ_BYTES = 128 << 10
LARGE_QUEUE = 2.0  # large requests in flight beyond which the wire is kept full (chosen)
SMALL_QUEUE = 32.0  # small requests in flight beyond which they queue [Serial ATA: 32 commands at once]
FAULTS_PER_BATCH = 20  # major faults from which a data set is read through a memory map (chosen)
OVERREAD_BYTES = 4 * LARGE_READ_BYTES  # per fault: four usual windows around a row that needs a page
UNSURE = ("unsure", "unseen", "writes")


@dataclass(frozen=True)
class Reads:
    """How the data set's reads are served. ``pace``: limit (a control group's), device (the disk gives all it
    can), latency (each read's own), unsure (large reads, no more requested), unseen (no counters), writes.
    ``readers`` is the mean number of reads under way at once; ``each_*`` are per read from a disk."""

    pace: str
    readers: float
    each_bytes: float | None
    each_s: float | None


def judge_reads(
    profile: Profile, loader: Loader | None, inputs: Inputs, host: HostLoad, step_s: float
) -> Reads:
    """How storage serves a loader, or a loop without one."""
    key, workers = (loader.key, loader.num_workers) if loader is not None else ("", 0)
    making_s = max(inputs.cpu + inputs.storage + inputs.network + inputs.wait, 1e-12)
    readers = max(1, workers) * inputs.storage / making_s  # their makers being busy
    # Reads per batch that memory did not answer; a page fault is a read that no call shows.
    stored, delivered = inputs.storage_bytes, inputs.read_bytes
    cold = min(1.0, stored / delivered) if stored and delivered else 1.0
    count = (inputs.reads or 0.0) * cold + inputs.major_faults
    each_bytes = stored / count if stored is not None and count else None
    calls_per_s = count / step_s if step_s else 0.0
    machine, bytes_per_s = profile.machine, host.job_read_bytes_per_s or 0.0
    limits = ((bytes_per_s, machine.read_limit_bytes_per_s), (calls_per_s, machine.read_limit_iops))
    if inputs.written:
        pace = "writes"
    elif any(limit and value >= NEARLY_ALL * limit for value, limit in limits):
        pace = "limit"
    else:
        spins = any(hot.rotational is True for hot in profile.hot_files if hot.loader == key)
        pace = _pace_of_disks(each_bytes, host, spins)
    return Reads(pace, readers, each_bytes, inputs.storage / count if count else None)


def _pace_of_disks(each_bytes: float | None, host: HostLoad, spins: bool) -> str:
    """By how long the queue of requests is."""
    if each_bytes is None or host.disk_busy is None:
        return "unseen"
    large, queue = each_bytes >= LARGE_READ_BYTES, host.disk_queue or 0.0
    crowded = queue >= (LARGE_QUEUE if large else SMALL_QUEUE) or (not large and spins)
    if host.disk_busy >= NEARLY_ALL and crowded:
        return "device"
    return "unsure" if large else "latency"


def is_mapped(inputs: Inputs) -> bool:
    """Whether the data set is read through a memory map: by faults, not by calls."""
    return inputs.major_faults >= FAULTS_PER_BATCH and inputs.major_faults > (inputs.reads or 0.0)


def is_overread(inputs: Inputs, reads: Reads) -> bool:
    """Whether the kernel reads far around each fault: then readahead is what keeps the disk busy."""
    return is_mapped(inputs) and (reads.each_bytes or 0.0) >= OVERREAD_BYTES


def streams_of(reads: Reads) -> float | None:
    """How many reads the storage serves at once before each gets slower; None = more than are requested."""
    if reads.pace == "latency":
        return None
    return 2 * reads.readers if reads.pace in UNSURE else reads.readers


def are_small_files(inputs: Inputs) -> bool:
    """Whether each sample is a small file of its own: then the number of files sets the cost."""
    opens = inputs.opens or 0.0
    each_bytes = (inputs.read_bytes or 0.0) / max(opens, 1e-9)
    return opens >= NEARLY_ALL * max(1.0, inputs.samples) and each_bytes < LARGE_READ_BYTES
