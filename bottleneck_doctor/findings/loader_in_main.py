"""Every batch is made by the training process itself.

## What it means
The loader has no workers: the model waits while data is made, and the data stage waits while the model
runs. Or one thread fills the queue of a loop without a loader, and sleeps for most of what a batch takes.

## Why it costs
The two take turns instead of running side by side. With c seconds to make a batch and C to use it, a step
takes c + C; with workers it takes the larger of the two as long as there are cores, or waits to overlap.

## How it is measured
`num_workers` of the loader that feeds the training loop, and the share of the steady window spent inside its
`next`. The batch's cost is split by the kernel's books of the thread that made it.

## Thresholds
Data wait above 5 % of the step: the rule of the profiler's TensorBoard plugin.

## When this advice is wrong
Data sets that hold an open database handle, a socket or tensors on a GPU must not be forked. An iterable data
set that does not ask for its worker's number gives every batch twice. A tensor data set in memory wants
batched indexing, not workers.

## Prediction
Replay of the measured batches with W workers on the cores that are left; the smallest W within 3 % of the
best. A function or a generator may not be divisible: from what one worker brings. Of one that sleeps for 0.8
of its time (ours), a thread is enough to work ahead. For threads that sleep:
two to eight times as many batches a second from a disk; from elsewhere, up to what the loop can use.

## Remedies
`workers-auto`, `reserve-cores`, `thread-prefetch`, `cache-bytes-ram`, `stage-to-fast-storage`.

## References
torch.utils.data, "Single- and Multi-process Data Loading"; PyTorch Performance Tuning Guide, "Enable
asynchronous data loading and augmentation".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import is_indexing
from ..analyse.hot_lines import Feeders, find_feeders
from ..analyse.loop_without_loader import is_fed_back
from ..analyse.predict import best_setting
from ..model.code import Location
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Inputs, Proposal, StepCost
from ..model.report import Evidence, Fix
from .parts.advice import (
    WAIT_SHARE,
    as_served,
    loader_call,
    loader_with,
    making_s,
    spread,
    staging,
    wait_evidence,
)
from .parts.case import Case, patient
from .parts.entry import Entry
from .parts.lines import hottest_place, line_evidence
from .parts.reserving import reserve_cores

ID = "loader-in-main"
MOSTLY = 0.8  # of it, from which one thread beside the loop leaves it the interpreter (ours)
SLEEPS = 0.3  # of what a batch costs, from which more threads gain; less is the interpreter's turns (ours)
MORE_THREADS = (2, 4, 8)  # times as many as now, which a disk serves side by side (ours)
MORE_SLEEPERS = (2, 8, 32)  # the same where they wait for no disk: as many as it takes (ours)
THREADS = """\
order = itertools.count()                            # next(order) is safe between threads
def fill():
    while True: ready.put(make_batch(next(order)))
for _ in range(4): threading.Thread(target=fill, daemon=True).start()"""
READS = 0.5  # of what a batch costs its maker, from which its reads are what is slow (ours)
STAGED = (1.0, 0.3, 0.1)  # of the reads' time on a local disk; nothing is spared where it was one (ours)
HELD = (0.5, 0.05, 0.02)  # of it with the data in memory (ours)
CACHED = "from functools import lru_cache    # @lru_cache(maxsize=None) on the function that reads a file"
IDLE_SHARE = 0.5  # of the loop's own time, from which a thread beside it finds the interpreter free (ours)
AHEAD = """\
ready = queue.Queue(4)                              # import queue, threading
def fill():
    while True: ready.put(get_batch())
threading.Thread(target=fill, daemon=True).start()
batch = ready.get()                                 # in the loop"""


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when a loader without workers makes the loop wait."""
    loader, scenario = diagnosis.loader, diagnosis.scenario
    if scenario is None:
        return Abstention(ID, "a training loop")
    if diagnosis.outside is not None or (loader is not None and loader.kind == "function"):
        return _function_in_main(diagnosis)
    if loader is None or loader.kind != "dataloader" or loader.num_workers:
        return None
    if diagnosis.wait_s < WAIT_SHARE * diagnosis.step_s or is_indexing(diagnosis.inputs, loader):
        return None
    best = best_setting(scenario)
    proposal = Proposal(
        id="workers-auto",
        title=f"make batches in {best.workers} worker process{'es' if best.workers > 1 else ''}",
        fix=Fix("give the loader workers and keep them between epochs",
                loader_call(loader, num_workers=best.workers, prefetch_factor=best.prefetch,
                            persistent_workers=True),
                loader.location),
        change=best.change,
        apply="hook",
        risk="memory grows with each worker; augmentations draw otherwise; guard `__main__` where spawned",
        treatments=(loader_with(loader, num_workers=best.workers, prefetch_factor=best.prefetch,
                                persistent_workers=True),),
    )  # fmt: skip
    evidence = [Evidence("the loader has num_workers=0", "num_workers", 0.0, "DataLoader arguments"),
                *line_evidence(diagnosis), *wait_evidence(diagnosis)]  # fmt: skip
    proposals = [*reserve_cores(diagnosis), as_served(diagnosis, proposal)]
    return Finding(ID, diagnosis.verdict.cause, evidence, proposals, loader.location)


def _function_in_main(diagnosis: Diagnosis) -> Finding | None:
    """The same ailment without a DataLoader: a function of the user's makes each batch between two steps."""
    if diagnosis.loader is not None and diagnosis.loader.kind == "dataloader":
        return None  # a background thread reads it; the loop does not
    if diagnosis.wait_s < WAIT_SHARE * diagnosis.step_s:
        return None
    pid = diagnosis.outside.pid if diagnosis.outside is not None else 0
    feeders = find_feeders(diagnosis.profile, pid)
    if feeders.stacks:
        return _fed(diagnosis, feeders)
    assert diagnosis.scenario is not None
    if is_fed_back(diagnosis.profile, diagnosis.outside):
        return None  # the next batch depends on this step
    scenario, marked = diagnosis.scenario, diagnosis.loader
    place = marked.location if marked is not None else diagnosis.source
    best = best_setting(scenario)
    one = Change(workers=1, startup=0.0)
    proposal = Proposal(
        id="workers-auto",
        title="move the making of batches into the data set of a DataLoader with workers",
        fix=Fix("make the function the data set's `__getitem__` or `__iter__`",
                f"DataLoader(dataset, batch_size=None, num_workers={best.workers}, persistent_workers=True)",
                place),
        factor=spread(scenario, one, best.change, best.change),
        effort="hours",
        risk="a generator must be divided among workers by hand, or one worker is all that it can have; "
        "random draws come from other streams; memory grows with each worker",
    )  # fmt: skip
    proposals = [proposal, *reserve_cores(diagnosis), *_ahead(diagnosis, place), *_at_hand(diagnosis, place)]
    function = place.function if place is not None else ""
    by = f" by {function}" if function else ""
    text = f"batches are made{by} in the loop's own thread"
    seen = [*line_evidence(diagnosis), *wait_evidence(diagnosis)]
    evidence = [Evidence(text, "", None, "stack samples"), *seen]
    return Finding(ID, diagnosis.verdict.cause, evidence, proposals, place)


def _fed(diagnosis: Diagnosis, feeders: Feeders) -> Finding | None:
    """Threads of the script's own make them; where they sleep meanwhile, more would wait side by side."""
    inputs, scenario, place = diagnosis.inputs, diagnosis.scenario, hottest_place(diagnosis)
    if scenario is None or _asleep(inputs) < SLEEPS:
        return None  # they compute, and more of them would take turns at the interpreter's lock
    own = max(0.0, diagnosis.step_s - diagnosis.wait_s)
    more = MORE_THREADS if inputs.storage > inputs.wait + inputs.network else MORE_SLEEPERS
    left = [max(0.0, (diagnosis.step_s / one - own) / diagnosis.wait_s) for one in more]
    proposal = Proposal(
        id="workers-auto",
        title="fill the queue from several threads: what they sleep in passes side by side",
        fix=Fix("two to four threads that share the samples' order and fill one queue", THREADS, place),
        factor=spread(scenario, *(Change(storage=one, network=one, wait=one) for one in left)),
        effort="hours",
        risk="batches arrive in another order; what a server or a lock allows one at a time gains nothing",
    )  # fmt: skip
    text = "threads that make batches beside the loop, which waits for them in a queue"
    evidence = [Evidence(text, "feeders", float(feeders.count + feeders.asleep), "stack samples"),
                *line_evidence(diagnosis), *wait_evidence(diagnosis)]  # fmt: skip
    return Finding(ID, diagnosis.verdict.cause, evidence, [proposal, *_at_hand(diagnosis, place)], place)


def _asleep(inputs: Inputs) -> float:
    """The share of the making of batches that waits for storage, a server or a clock."""
    asleep = inputs.storage + inputs.network + inputs.wait + inputs.reading
    return asleep / max(making_s(inputs), 1e-12)


def _at_hand(diagnosis: Diagnosis, place: Location | None) -> list[Proposal]:
    """What spares a loop its reads from storage: the data in memory, or on a disk of its own."""
    inputs, scenario = diagnosis.inputs, diagnosis.scenario
    if scenario is None or inputs.storage + inputs.reading < READS * making_s(inputs):
        return []
    near = staging(diagnosis, "copy the data to a local disk before training",
                   spread(scenario, *(Change(storage=left) for left in STAGED)))  # fmt: skip
    held = Proposal(
        id="cache-bytes-ram",
        title="read the data into memory once, before training",
        fix=Fix("keep the bytes that the function reads, where they fit", CACHED, place),
        factor=spread(scenario, *(Change(storage=left) for left in HELD)),
        basis="bound",
        risk="needs memory for all of it; the first pass reads as slowly as today",
    )
    return [held, near]


def _ahead(diagnosis: Diagnosis, place: Location | None) -> list[Proposal]:
    """A thread that works ahead, where the loop sleeps (on a device) and leaves it the interpreter, or where
    the thread itself would mostly sleep."""
    scenario = diagnosis.scenario
    assert scenario is not None
    costs = scenario.costs
    idle, own = sum(cost.idle for cost in costs), sum(cost.idle + cost.compute for cost in costs)
    if idle < IDLE_SHARE * own and _asleep(diagnosis.inputs) < MOSTLY:
        return []
    ahead = Change(workers=1, prefetch=4)
    return [
        Proposal(
            id="thread-prefetch",
            title="make the next batches in a background thread",
            fix=Fix("fill a bounded queue from a thread and take batches from it", AHEAD, place),
            factor=spread(scenario, ahead, ahead, ahead),
            risk="the function then runs in another thread, and holds the interpreter's lock while in Python",
        )
    ]


def _asking() -> Diagnosis:
    """A function of the user's waits 20 ms for each batch, and the model computes as long."""
    base = patient(BatchCost(5e-4, wait=0.02), StepCost(0.02))
    assert base.loader is not None
    function = replace(base.loader, kind="function")
    return replace(base, loader=function, inputs=Inputs(cpu=5e-4, wait=0.02))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case(
            "decoding in the loop's own process",
            patient(BatchCost(0.01), StepCost(0.0, 0.01)),
            "fires",
            "workers-auto",
        ),
        Case("a function that asks a server, and sleeps", _asking(), "fires", "thread-prefetch"),
        Case("two workers already", patient(BatchCost(0.01), StepCost(0.0, 0.01), workers=2), "silent"),
        Case("data is ready at once", patient(BatchCost(0.0001), StepCost(0.0, 0.01)), "silent"),
    )


FINDING = Entry(ID, "input.preprocess", examine)
