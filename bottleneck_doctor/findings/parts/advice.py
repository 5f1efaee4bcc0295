"""What several findings say alike: the loader's call with changed arguments, and how the loop waits."""

from __future__ import annotations

from dataclasses import replace

from ...analyse import reads
from ...analyse.causes import gain
from ...analyse.predict import WORTH, best_setting, step_after
from ...analyse.reads import UNSURE, Reads
from ...analyse.steps import share_in
from ...model.code import Location
from ...model.diagnosis import Change, Diagnosis, Inputs, Proposal, Scenario
from ...model.fetches import HotFiles, Payload, Repeats
from ...model.instruments import Operation, Series
from ...model.loops import Loader
from ...model.report import Evidence
from ...model.run import Treatment
from ...source.frames import is_users
from .remedies import WORKERS
from .rewriting import loader_call as loader_call

EQUAL_SHARE = 0.9  # of samples that came again: what makes them has no random part [catalogue F08]

HOOK = "hook on the loader's next"
SERVED_SHARE = 0.3  # of a batch's making, from which a server decides what more workers bring (ours)
MORE_AT_ONCE = 2.0  # times what it was seen to serve: more is not known of it (ours)
BOOKS = "thread CPU clock, schedstat"
TASK_IO = "io counters of the task"

WAIT_SHARE = 0.05  # of the step [TensorBoard plugin of the PyTorch profiler]
PAYS = 1.05  # step time over the step time without the cause [contract: what limits anything]
PIPES = "SerializationWrapper"  # what torch puts a data pipe into while it builds the loader
MOST = 0.5  # of what a batch costs its maker [catalogue F20, F23]

LOCK_SHARE = 0.2  # of the waits, from which workers are taken to wait for each other (ours)

LOOKS_AT_LEAST = 5  # at sleeping threads, below which waits cannot be told apart [analyse/inputs.py]


def data_wait_evidence(diagnosis: Diagnosis) -> Evidence:
    """The report's own data wait."""
    known = diagnosis.metrics["data_wait_fraction"]
    text = "share of the step that the loop waits for data"
    return Evidence(text, "data_wait_fraction", known.value, known.source)


def wait_evidence(diagnosis: Diagnosis) -> list[Evidence]:
    """How long the loop waits, and where the making of a batch spends its time."""
    inputs = diagnosis.inputs
    parts = (
        ("CPU time to make a batch", "fetch_cpu_s", inputs.cpu, BOOKS),
        ("time a batch's maker waits for a core", "fetch_queue_s", inputs.queue, "schedstat"),
        (
            "time a batch's maker sleeps in reads from storage",
            "fetch_storage_s",
            inputs.storage,
            "wait channels",
        ),
        ("time a batch's maker waits for the network", "fetch_network_s", inputs.network, "wait channels"),
        ("time a batch's maker sleeps on something else", "fetch_wait_s", inputs.wait, "wait channels"),
    )
    whole = max(inputs.wall, 1e-12)
    return [data_wait_evidence(diagnosis), *(Evidence(*one) for one in parts if one[2] > 0.05 * whole)]


def starved(diagnosis: Diagnosis, cause: str, seconds: float) -> bool:
    """Whether the making of batches holds the loop up, ``cause`` being what its removal would cure: what the
    verdict names, or, where the loop waits or workers take its cores, most of what a batch costs its maker
    (``seconds`` of it)."""
    pays = diagnosis.causes.get(cause, 1.0) >= PAYS
    most = seconds >= MOST * making_s(diagnosis.inputs)
    return pays and (diagnosis.verdict.cause == cause or (held_up(diagnosis) and most))


def making_s(inputs: Inputs) -> float:
    """What a batch costs its maker, net of waiting for a core."""
    return max(inputs.cpu + inputs.storage + inputs.network + inputs.wait, 1e-12)


def on_loader(remedy: Proposal, loader: Loader, text: str = "", **arguments: object) -> Proposal:
    """The remedy for a loader that is built with other arguments: the call to write, and the treatment."""
    return replace(
        remedy.at(loader.location, loader_call(loader, **arguments), text),
        treatments=(loader_with(loader, **arguments),),
    )


ITERABLE = "; an iterable data set must give each worker a part of its own, or samples come repeatedly"


def more_workers(diagnosis: Diagnosis, streams: float | None = None, title: str = "") -> list[Proposal]:
    """The loader setting that the replay likes best, with ``streams`` reads served side by side at most."""
    loader, scenario = diagnosis.loader, diagnosis.scenario
    if loader is None or scenario is None or loader.kind != "dataloader":
        return []
    reading = replace(scenario, streams=streams or scenario.streams)
    best = best_setting(reading)
    if best.step_s > step_after(reading, Change(startup=0.0)) / WORTH:
        return []  # all that it brings is that workers live on, which another remedy says by name
    count = "one worker process" if best.workers == 1 else f"{best.workers} worker processes"
    proposal = replace(
        on_loader(WORKERS, loader, num_workers=best.workers, prefetch_factor=best.prefetch,
                  persistent_workers=True),
        title=title or f"wait side by side: make batches in {count}",
        change=replace(best.change, streams=streams),
        risk=WORKERS.risk + (ITERABLE if loader.dataset_kind == "iterable" else ""),
    )  # fmt: skip
    return [as_served(diagnosis, proposal)]


def as_served(diagnosis: Diagnosis, proposal: Proposal) -> Proposal:
    """More workers; no more than a bound where they ask a server for far more at once than it was seen to
    serve, and where the loop's thread sleeps while threads of a decoder make its batch: what a second decoder
    leaves of the cores was not seen."""
    inputs, scenario, change = diagnosis.inputs, diagnosis.scenario, proposal.change
    if scenario is None or change is None:
        return proposal
    most = gain(scenario, change)
    helped = scenario.workers == 0 and inputs.cpu < MOST * inputs.wall and inputs.other_cpu > inputs.cpu
    if helped:
        most = min(most, diagnosis.step_s * scenario.cores / (inputs.cpu + inputs.other_cpu))
    asked = (change.workers or 0) > MORE_AT_ONCE * max(1, scenario.workers)
    if not helped and not (asked and inputs.network >= SERVED_SHARE * making_s(inputs)):
        return proposal
    return replace(
        proposal, change=None, factor=(1.0, min(most, MORE_AT_ONCE), most), most=most, basis="bound"
    )


def loader_with(loader: Loader, **arguments: object) -> Treatment:
    """The treatment that builds this loader with other arguments."""
    return Treatment("loader", {"where": meant(loader), "arguments": arguments})


def meant(loader: Loader) -> dict[str, object] | None:
    """How a treatment knows this loader among those that the script builds, on the same line even."""
    place = loader.location
    if place is None:
        return None
    where: dict[str, object] = {"file": place.file, "line": place.line, "batch_size": loader.batch_size}
    if not loader.dataset.endswith(PIPES):
        where["dataset"] = loader.dataset
    if loader.dataset_kind == "map":
        where |= {"length": loader.dataset_length, "sampler": loader.sampler}
    return {name: value for name, value in where.items() if name == "batch_size" or value}


def keeping(diagnosis: Diagnosis) -> tuple[Treatment, ...]:
    """The treatment that keeps this loader's finished samples in memory, in as much as they may take."""
    loader, room = diagnosis.loader, room_to_keep(diagnosis)
    if loader is None or not room:
        return ()
    return (Treatment("cache", {"where": meant(loader), "bytes": int(room)}),)


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
        ("time asleep per such read", "read_s", judged.each_s, "wait channels, task io"),
        ("bytes per second that the job read", "job_read_bytes_per_s", host.job_read_bytes_per_s, TASK_IO),
        ("share of time in which the machine's disks had work", "disk_busy", host.disk_busy, "diskstats"),
        ("mean number of requests in the disks' queues", "disk_queue", host.disk_queue, "diskstats"),
        ("bytes per second that it may read", "read_limit_bytes_per_s", limit_bytes, "control group"),
        ("reads per second that it may make", "read_limit_iops", limit_reads, "control group"),
    )
    found = [Evidence(*part) for part in parts if part[2] is not None]
    if not inputs.blocked_samples:
        found.append(
            Evidence("no thread was sampled asleep: the bytes read alone say that the waits are for storage")
        )
    if judged.pace in UNSURE:
        found.append(Evidence("not seen whether storage could serve more at once: twice as many is assumed"))
    return found


def place_of(diagnosis: Diagnosis) -> Location | None:
    """Where the user defines the data set, else where its loader is built: a library's line is nobody's to
    edit."""
    loader = diagnosis.loader
    if loader is None:
        return None
    known = [one for one in (loader.dataset_location, loader.location) if one is not None]
    return next((one for one in known if is_users(one.file)), known[-1] if known else None)


KEEP_SHARE = 0.5  # of the memory allowed, at most, for samples kept in it [catalogue F08]
COPY_S_PER_BYTE = 1 / 3e9  # CPU to take a sample that lies in memory (ours: a third of what a core copies)
TAKE_S = 5e-6  # and per sample for Python to find it [catalogue F09: indexing a tensor, measured]


def one_epoch(diagnosis: Diagnosis) -> bool:
    """Whether the run went over its data once, and ended by itself: what pays in later epochs has none."""
    loop = diagnosis.loop
    return loop is not None and len(loop.epochs.batches) == 1 and diagnosis.profile.run.stopped_by is None


def held_up(diagnosis: Diagnosis) -> bool:
    """Whether the loop waits for data to speak of, or for cores that those who make it take."""
    return waits(diagnosis) or diagnosis.verdict.cause in ("input.preprocess", "input.oversubscribed")


def waits(diagnosis: Diagnosis) -> bool:
    """Whether the loop waits for data to speak of."""
    return diagnosis.wait_s >= WAIT_SHARE * diagnosis.step_s


def spread(scenario: Scenario, low: Change, likely: Change, high: Change) -> tuple[float, float, float]:
    """Speedups of one remedy under a cautious, a likely and a hopeful assumption of what it changes."""
    first, *rest = sorted(gain(scenario, change) for change in (low, likely, high))
    return first, rest[0], rest[1]


def dearest(diagnosis: Diagnosis, causes: tuple[str, ...]) -> str:
    """Which of these causes would gain most if it were removed; the first where nothing is known."""
    return max(causes, key=lambda cause: diagnosis.causes.get(cause, 0.0))


def key_of(diagnosis: Diagnosis) -> str:
    """By what facts name the training loader; "" where there is none."""
    return diagnosis.loader.key if diagnosis.loader is not None else ""


def hot_files_of(diagnosis: Diagnosis) -> HotFiles | None:
    """The files from which the training loader's batches come, where some were seen."""
    key = key_of(diagnosis)
    return next((one for one in diagnosis.profile.hot_files if key and one.loader == key), None)


def payload_of(diagnosis: Diagnosis) -> Payload | None:
    """What a batch of the training loader is made of, when batches were looked into."""
    key = key_of(diagnosis)
    return next((one for one in diagnosis.profile.payloads if one.loader == key and one.batches), None)


def repeats_of(diagnosis: Diagnosis) -> Repeats | None:
    """Whether the training loader's samples come out the same again, when some were followed."""
    return next((one for one in diagnosis.profile.repeats if one.loader == key_of(diagnosis)), None)


def room_to_keep(diagnosis: Diagnosis) -> float:
    """Bytes that samples or files may take in memory; 0 where its size is not known."""
    machine = diagnosis.profile.machine
    known = [size for size in (machine.memory_bytes, machine.memory_limit_bytes) if size]
    return KEEP_SHARE * min(known, default=0)


def fits_memory(diagnosis: Diagnosis, sample_bytes: float) -> bool:
    """Whether all samples, kept in memory, leave half of it free; False where either size is not known."""
    length = diagnosis.loader.dataset_length if diagnosis.loader is not None else None
    return 0 < (length or 0) * sample_bytes <= room_to_keep(diagnosis)


def remembering(inputs: Inputs, sample_bytes: float, spared_s: float) -> Change:
    """Samples stay in memory: ``spared_s`` of CPU per batch, and every wait, become a copy out of memory."""
    fetching = inputs.fetching
    taking = inputs.samples * (TAKE_S + sample_bytes * COPY_S_PER_BYTE)
    left = max(0.0, fetching - spared_s) + taking
    return Change(cpu=min(1.0, left / fetching), storage=0.0, network=0.0, wait=0.0)


def step_share(diagnosis: Diagnosis, part: str) -> float:
    """The share of the steady step that one of its parts takes, by the name of its field."""
    return share_in(diagnosis.steps, part)


def operations_of(diagnosis: Diagnosis, kind: str) -> list[Operation]:
    """Calls of one kind in the training loop's own thread, the costliest line first."""
    loop = diagnosis.loop
    calls = diagnosis.profile.operations
    mine = [one for one in calls if loop and (one.pid, one.thread) == (loop.pid, loop.thread)]
    return sorted((one for one in mine if one.kind == kind), key=lambda one: -one.total_s)


def lock_share(diagnosis: Diagnosis) -> float:
    """The part of the waits that several workers spend at locks: they may be taking turns."""
    workers = diagnosis.loader.num_workers if diagnosis.loader is not None else 0
    waited = diagnosis.inputs.wait
    return diagnosis.inputs.waits.get("lock", 0.0) / waited if workers > 1 and waited > 0 else 0.0


def takes_turns(diagnosis: Diagnosis) -> bool:
    """Whether workers wait for each other, so that more of them would only queue."""
    return lock_share(diagnosis) >= LOCK_SHARE


NOTHING = (1.0, 1.0, 1.0)  # a remedy that makes no step faster: it averts a failure, or shortens the run


def readings(series: Series, name: str) -> list[tuple[float, float]]:
    """(instant, value) wherever the value was read."""
    return [(t, v) for t, v in zip(series.t, series.values.get(name, []), strict=False) if v is not None]


def memory_left(diagnosis: Diagnosis) -> float | None:
    """Bytes that the job could still use: what the machine or its own limit leaves, whichever is less."""
    series, machine = diagnosis.profile.series, diagnosis.profile.machine
    available = min((value for _, value in readings(series, "memory_available_bytes")), default=None)
    used = max((value for _, value in readings(series, "job_rss_bytes")), default=None)
    known = [] if available is None else [available]
    if machine.memory_limit_bytes is not None and used is not None:
        known.append(max(0.0, machine.memory_limit_bytes - used))
    return min(known, default=None)
