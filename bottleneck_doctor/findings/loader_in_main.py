"""Every batch is made by the training process itself.

## What it means
The loader has no workers: the model waits while data is made, and the data stage waits while the model
runs. Or one thread fills the queue of a loop without a loader, and sleeps for most of what a batch takes.

## Why it costs
The two take turns instead of running side by side. With c seconds to make a batch and C to use it, a step
takes c + C; with workers it takes the larger of the two as long as there are cores, or waits to overlap.

## How it is measured
`num_workers` of the loader that feeds the training loop, and the share of the steady window spent inside its
`next`. The batch's cost is split by the kernel's books of the thread that made it. Threads take turns at a
lock where most of their samples stand in the head of a `with` that names it.

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
two to eight times as many batches a second from a disk; from elsewhere, up to what the loop can use. Several
that take turns at a lock: as many times as there are threads, at worst half of that.

## References
torch.utils.data, "Single- and Multi-process Data Loading"; PyTorch Performance Tuning Guide, "Enable
asynchronous data loading and augmentation".
"""

from __future__ import annotations

import ast
from dataclasses import replace

from ..analyse.causes import is_indexing
from ..analyse.hot_lines import Feeders, find_feeders
from ..analyse.loop_without_loader import is_fed_back
from ..analyse.predict import best_setting
from ..analyse.verdict import sends
from ..model.code import Location
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Inputs, Proposal, StepCost
from ..model.report import Evidence, Fix
from .parts.advice import as_served, making_s, on_loader, place_of, spread, wait_evidence, waits
from .parts.entry import Case, Entry, given, patient, steady_steps
from .parts.lines import hottest_place, line_evidence, statement_of
from .parts.remedies import STAGE, WORKERS
from .parts.reserving import RESERVE, reserve_cores

ID = "loader-in-main"
MOSTLY = 0.8  # of it, from which one thread beside the loop leaves it the interpreter (ours)
SLEEPS = 0.3  # of what a batch costs, from which more threads gain; less is the interpreter's turns (ours)
MORE_THREADS = (2.0, 4.0, 8.0)  # times as many as now, which a disk serves side by side (ours)
MORE_SLEEPERS = (2.0, 8.0, 32.0)  # the same where they wait for no disk: as many as it takes (ours)
READS = 0.5  # of what a batch costs its maker, from which its reads are what is slow (ours)
STAGED = (1.0, 0.3, 0.1)  # of the reads' time on a local disk; nothing is spared where it was one (ours)
HELD = (0.5, 0.05, 0.02)  # of it with the data in memory (ours)
IDLE_SHARE = 0.5  # of the loop's own time, from which a thread beside it finds the interpreter free (ours)

GIVE_WORKERS = replace(
    WORKERS,
    fix=Fix("give the loader workers and keep them between epochs", WORKERS.fix.snippet),
    risk="memory grows with each worker; augmentations draw otherwise; guard `__main__` where spawned",
)
MOVE_TO_LOADER = Proposal(
    id="workers-auto",
    title="move the making of batches into the data set of a DataLoader with workers",
    fix=Fix(
        "make the function the data set's `__getitem__` or `__iter__`",
        "DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=True)",
    ),
    effort="hours",
    risk="a generator must be divided among workers by hand, or one worker is all that it can have; "
    "random draws come from other streams; memory grows with each worker",
)
MORE_FEEDERS = Proposal(
    id="workers-auto",
    title="fill the queue from several threads: what they sleep in passes side by side",
    fix=Fix(
        "two to four threads that share the samples' order and fill one queue",
        "order = itertools.count()                            # next(order) is safe between threads\n"
        "def fill():\n"
        "    while True: ready.put(make_batch(next(order)))\n"
        "for _ in range(4): threading.Thread(target=fill, daemon=True).start()",
    ),
    effort="hours",
    risk="batches arrive in another order; what a server or a lock allows one at a time gains nothing",
)
UNLOCK = Proposal(
    id="release-lock",
    title="let the threads that fill the queue wait side by side, not one at a time in a lock",
    fix=Fix(
        "hold the lock for what the threads share, not while one of them waits for its answer",
        "with lock: job = next(jobs)                          # what they share\n"
        "answer = ask(job)                                    # outside of it: all of them wait at once",
    ),
    risk="what the lock protects must bear several threads at once, or each needs its own",
)
PREFETCH = Proposal(
    id="thread-prefetch",
    title="make the next batches in a background thread",
    fix=Fix(
        "fill a bounded queue from a thread and take batches from it",
        "ready = queue.Queue(4)                              # import queue, threading\n"
        "def fill():\n"
        "    while True: ready.put(get_batch())\n"
        "threading.Thread(target=fill, daemon=True).start()\n"
        "batch = ready.get()                                 # in the loop",
    ),
    risk="the function then runs in another thread, and holds the interpreter's lock while in Python",
)
HOLD_BYTES = Proposal(
    id="cache-bytes-ram",
    title="read the data into memory once, before training",
    fix=Fix(
        "keep the bytes that the function reads, where they fit",
        "from functools import lru_cache    # @lru_cache(maxsize=None) on the function that reads a file",
    ),
    risk="needs memory for all of it; the first pass reads as slowly as today",
    basis="bound",
)
STAGE_LOCALLY = replace(STAGE, title="copy the data to a local disk before training")


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when a loader without workers makes the loop wait."""
    loader, scenario = diagnosis.loader, given(diagnosis.scenario)
    if diagnosis.without_loader is not None or (loader is not None and loader.kind == "function"):
        return _function_in_main(diagnosis)
    if loader is None or loader.kind != "dataloader" or loader.num_workers:
        return None
    if not waits(diagnosis) or is_indexing(diagnosis.inputs, loader):
        return None
    best = best_setting(scenario)
    proposal = replace(
        on_loader(GIVE_WORKERS, loader, num_workers=best.workers, prefetch_factor=best.prefetch,
                  persistent_workers=True),
        title=f"make batches in {best.workers} worker process{'es' if best.workers > 1 else ''}",
        change=best.change,
    )  # fmt: skip
    evidence = [Evidence("the loader has num_workers=0", "num_workers", 0.0, "DataLoader arguments"),
                *line_evidence(diagnosis), *wait_evidence(diagnosis)]  # fmt: skip
    proposals = [*reserve_cores(diagnosis), as_served(diagnosis, proposal)]
    return Finding(ID, diagnosis.verdict.cause, evidence, proposals, loader.location)


def _function_in_main(diagnosis: Diagnosis) -> Finding | None:
    """The same ailment without a DataLoader: a function of the user's makes each batch between two steps."""
    if diagnosis.loader is not None and diagnosis.loader.kind == "dataloader":
        return None  # a background thread reads it; the loop does not
    if not waits(diagnosis):
        return None
    loop = diagnosis.without_loader
    feeders = find_feeders(diagnosis.profile, loop.pid if loop is not None else 0)
    if feeders.stacks:
        return _fed(diagnosis, feeders)
    if is_fed_back(diagnosis.profile, loop):
        return None  # the next batch depends on this step
    scenario, marked = given(diagnosis.scenario), diagnosis.loader
    place = marked.location if marked is not None else diagnosis.source
    best, one = best_setting(scenario), Change(workers=1, startup=0.0)
    call = f"DataLoader(dataset, batch_size=None, num_workers={best.workers}, persistent_workers=True)"
    proposal = replace(MOVE_TO_LOADER.at(place, call), factor=spread(scenario, one, best.change, best.change))
    proposals = [proposal, *reserve_cores(diagnosis), *_ahead(diagnosis, place), *_at_hand(diagnosis, place)]
    function = place.function if place is not None else ""
    by = f" by {function}" if function else ""
    text = f"batches are made{by} in the loop's own thread"
    seen = [*line_evidence(diagnosis), *wait_evidence(diagnosis)]
    evidence = [Evidence(text, "", None, "stack samples"), *seen]
    return Finding(ID, diagnosis.verdict.cause, evidence, proposals, place)


def _fed(diagnosis: Diagnosis, feeders: Feeders) -> Finding | None:
    """Threads of the script's own make them; where they sleep meanwhile, more would wait side by side."""
    inputs, scenario, place = diagnosis.inputs, given(diagnosis.scenario), hottest_place(diagnosis)
    if _asleep(inputs) < SLEEPS or sends(scenario):
        return None  # they compute, and more of them would take turns at the interpreter's lock
    own, threads = max(0.0, diagnosis.step_s - diagnosis.wait_s), feeders.count + feeders.asleep
    locked = threads > 1 and _waits_for_lock(diagnosis, place)
    more = MORE_THREADS if inputs.storage > inputs.wait + inputs.network else MORE_SLEEPERS
    more = (threads / 2, float(threads), float(threads)) if locked else more
    left = [max(0.0, (diagnosis.step_s / one - own) / diagnosis.wait_s) for one in more]
    factor = spread(scenario, *(Change(storage=one, network=one, wait=one) for one in left))
    proposal = replace((UNLOCK if locked else MORE_FEEDERS).at(place), factor=factor)
    text = "threads that make batches beside the loop, which waits for them in a queue"
    evidence = [Evidence(text, "feeders", float(threads), "stack samples"),
                *line_evidence(diagnosis), *wait_evidence(diagnosis)]  # fmt: skip
    return Finding(ID, diagnosis.verdict.cause, evidence, [proposal, *_at_hand(diagnosis, place)], place)


def _waits_for_lock(diagnosis: Diagnosis, place: Location | None) -> bool:
    """Whether the line where the makers of batches stand most is the head of ``with lock:``."""
    found = statement_of(diagnosis, place)
    items = found[1].items if found is not None and isinstance(found[1], ast.With) else []
    return any(isinstance(one.context_expr, ast.Name | ast.Attribute) for one in items)


def _asleep(inputs: Inputs) -> float:
    """The share of the making of batches that waits for storage, a server or a clock."""
    asleep = inputs.storage + inputs.network + inputs.wait + inputs.reading
    return asleep / max(making_s(inputs), 1e-12)


def _at_hand(diagnosis: Diagnosis, place: Location | None) -> list[Proposal]:
    """What spares a loop its reads from storage: the data in memory, or on a disk of its own."""
    inputs, scenario = diagnosis.inputs, given(diagnosis.scenario)
    if inputs.storage + inputs.reading < READS * making_s(inputs):
        return []
    ways = ((HOLD_BYTES, place, HELD), (STAGE_LOCALLY, place_of(diagnosis), STAGED))
    return [
        replace(remedy.at(where), factor=spread(scenario, *(Change(storage=left) for left in lefts)))
        for remedy, where, lefts in ways
    ]


def _ahead(diagnosis: Diagnosis, place: Location | None) -> list[Proposal]:
    """A thread that works ahead, where the loop sleeps (on a device) and leaves it the interpreter, or where
    the thread itself would mostly sleep."""
    scenario = given(diagnosis.scenario)
    idle = sum(cost.idle for cost in scenario.costs)
    own = sum(cost.idle + cost.compute for cost in scenario.costs)
    if idle < IDLE_SHARE * own and _asleep(diagnosis.inputs) < MOSTLY:
        return []
    ahead = Change(workers=1, prefetch=4)
    return [replace(PREFETCH.at(place), factor=spread(scenario, ahead, ahead, ahead))]


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
        Case("no steady step was seen", replace(_asking(), scenario=None), "abstains"),
        Case("two workers already", patient(BatchCost(0.01), StepCost(0.0, 0.01), workers=2), "silent"),
        Case("data is ready at once", patient(BatchCost(0.0001), StepCost(0.0, 0.01)), "silent"),
    )


FINDING = Entry(
    ID,
    "input.preprocess",
    examine,
    needs=(steady_steps,),
    remedies=(
        GIVE_WORKERS,
        MOVE_TO_LOADER,
        MORE_FEEDERS,
        UNLOCK,
        RESERVE,
        PREFETCH,
        HOLD_BYTES,
        STAGE_LOCALLY,
    ),
)
