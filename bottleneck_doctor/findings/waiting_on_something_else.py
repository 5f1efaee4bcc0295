"""Data loading, or the training loop itself, sleeps: on a timer, a lock, a queue or a reply.

## What it means
A `sleep`, a rate limit, a retry with back-off, a lock, or a pool of threads holds the data set up. It looks
like slow input or output, but nothing is being read. Or the loop's own lines ask a server, an instrument or
another process in each step, and sleep until it answers.

## Why it costs
The wait is part of every batch or step. Sleeps of different workers overlap; turns at one lock do not. What
the loop sleeps for could pass during the step: sleep takes no core.

## How it is measured
The time of a fetch less its CPU and less its wait for a core is sleep; what the thread sleeps in is seen
from outside, by system call and wait channel. For the loop, kernel clocks give the time in which its thread
neither ran nor was ready, and stack samples the lines in which it slept; sleep for the model's other threads,
in checkpoints and in logging does not count.

## Thresholds
Data wait above 5 % of the step: the rule of the profiler's TensorBoard plugin. Such waits are more than
half of what a batch costs its maker, or the verdict's cause. A lock counts when two or more workers spend a
fifth of their waits on it (ours). Silent where the process's other threads were computing for half of the
wait: then it waits for a pool of its own, and that is CPU. The
loop's own lines: at least 0.1 of the step (ours).

## When this advice is wrong
A rate limit that all workers share (a token bucket, a quota of the server) is not shared out any wider by
more workers. A lock may guard what can only serve one at a time. Where the step needs a reply at once, and
what is asked depends on the step before, only a quicker reply or fewer questions help.

## Prediction
Replay of the measured batches: more workers whose sleeps overlap, or one background thread. For a lock:
from no gain at all to the batches without the time spent waiting for it. For the loop's own lines an upper
bound: all of the sleep.

## References
proc(5), "wchan" and "syscall"; torch.utils.data, "Single- and Multi-process Data Loading"; Python
documentation, "concurrent.futures".
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ..analyse.attribution import attribute
from ..analyse.causes import gain
from ..model.code import Location
from ..model.computing import Computing
from ..model.diagnosis import (
    Abstention,
    BatchCost,
    Change,
    CostShares,
    Diagnosis,
    Finding,
    Inputs,
    Proposal,
    StepCost,
)
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.advice import (
    LOOKS_AT_LEAST,
    lock_share,
    meant,
    more_workers,
    place_of,
    spread,
    starved,
    takes_turns,
    wait_evidence,
)
from .parts.computing import case_of
from .parts.entry import Case, Entry, given, inputs_of, patient, steady_steps, timed_fetches
from .parts.lines import STACKS
from .parts.remedies import WORKERS

ID = "waiting-on-something-else"
POOL_SHARE = 0.5  # of the wait, in CPU of the process's other threads: it waits for its own pool (ours)
ASLEEP_SHARE = 0.1  # of the step, in which the loop's own lines sleep (ours)
AHEAD = 4  # batches that a background thread keeps ready [catalogue F01]

THREAD = """\
def ahead(loader, depth=4):              # for batch in ahead(loader): ...
    ready, end = queue.Queue(depth), object()
    def fill():
        for batch in loader: ready.put(batch)
        ready.put(end)
    threading.Thread(target=fill, daemon=True).start()
    while (batch := ready.get()) is not end: yield batch"""
PREFETCH = Proposal(
    id="thread-prefetch",
    title="fetch the next batches in a background thread",
    fix=Fix("wrap the loader", THREAD),
    change=Change(workers=1, prefetch=AHEAD, ipc=0.0, startup=0.0),
    apply="hook",
    risk="the data set's code then runs in another thread; an exception in it must be handed over",
)
UNLOCK = Proposal(
    id="shorten-lock",
    title="hold the lock for less, so that workers need not take turns",
    fix=Fix(
        "keep only what must not happen twice at once under the lock",
        "with lock:\n"
        "    handle = take(index)                 # only what must not happen twice at once\n"
        "sample = prepare(handle)                 # everything else outside the lock",
    ),
    effort="hours",
    risk="nothing is gained, by this or by workers, where the lock guards what serves one at a time",
    basis="bound",
)
ASK_AHEAD = Proposal(
    id="ask-ahead",
    title="ask in a thread, and let the step go on",
    fix=Fix(
        "start it early, take its result where it is needed",
        "pool = ThreadPoolExecutor(1)           # once\n"
        "answer = pool.submit(ask, question)    # as early as it is known\n"
        "...                                    # the step\n"
        "use(answer.result())                   # where it is needed",
    ),
    effort="hours",
    risk="what is asked must not depend on what the step computes meanwhile",
    basis="bound",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the loop waits for something that no faster CPU, disk or network would give it."""
    scenario = given(diagnosis.scenario)
    most = gain(scenario, Change(idle=1 - scenario.shares.resting))
    asleep = 1 - 1 / most
    if asleep < ASLEEP_SHARE:
        missing = timed_fetches(diagnosis)
        return Abstention(ID, missing) if missing else _fetching(diagnosis)
    place = _asleep_at(diagnosis)
    proposal = replace(ASK_AHEAD.at(place), factor=(1.0, most, most), most=most)
    evidence = [Evidence("share of the step asleep in lines of the loop", "asleep_share", asleep, STACKS)]
    fetched = _fetching(diagnosis) if timed_fetches(diagnosis) is None else None
    if isinstance(fetched, Finding):
        return replace(
            fetched, evidence=[*evidence, *fetched.evidence], proposals=[proposal, *fetched.proposals]
        )
    return Finding(ID, "input.wait", evidence, [proposal], place)


def _asleep_at(diagnosis: Diagnosis) -> Location | None:
    """The function that the loop called most often where it slept."""
    seen: Counter[Location] = Counter()
    for one in attribute(diagnosis.profile, diagnosis.loop).own:
        stack = one.stack
        if one.own and one.called is not None and not one.logs:
            seen[one.called] += stack.count - (stack.running if stack.running is not None else stack.count)
    return max(seen, key=lambda place: seen[place]) if any(seen.values()) else None


def _fetching(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Sleep while batches are made."""
    inputs, loader, place = diagnosis.inputs, given(diagnosis.loader), place_of(diagnosis)
    if not starved(diagnosis, "input.wait", inputs.wait):
        return None
    if inputs.blocked_samples < LOOKS_AT_LEAST:
        return Abstention(ID, "what the makers of batches sleep in (wait channels)")
    if inputs.other_cpu >= POOL_SHARE * inputs.wait:
        return None
    evidence = wait_evidence(diagnosis)
    evidence += [Evidence(f"of which asleep in: {kind}", f"fetch_{kind}_s", value, "wait channels")
                 for kind, value in sorted(inputs.waits.items(), key=lambda item: -item[1])]  # fmt: skip
    if takes_turns(diagnosis):
        free = Change(wait=1 - lock_share(diagnosis))
        factor = spread(given(diagnosis.scenario), Change(), free, free)
        return Finding(ID, "input.wait", evidence, [replace(UNLOCK.at(place), factor=factor)], place)
    proposals = more_workers(diagnosis)
    if not loader.num_workers:  # a thread sleeps as well as a process does
        ahead = Treatment("ahead", {"where": meant(loader), "depth": AHEAD})
        proposals.append(replace(PREFETCH.at(loader.location), treatments=(ahead,)))
    return Finding(ID, "input.wait", evidence, proposals, place)


WORK = BatchCost(0.001, wait=0.02)
ASLEEP = inputs_of(WORK, 2, 0.0105)
LOCKED = replace(ASLEEP, waits={"sleep": 0.011, "lock": 0.009})


def _case(inputs: Inputs, workers: int = 2) -> Diagnosis:
    return patient(WORK, StepCost(0.0, 0.003), workers=workers, inputs=inputs)


def _resting(resting: float, idle: float = 0.03) -> Diagnosis:
    """A model that computes for 10 ms and a loop that sleeps for 30, so much of it in its own lines."""
    base = case_of(StepCost(0.01, idle), Computing())
    return replace(base, scenario=replace(given(base.scenario), shares=CostShares(resting=resting)))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case("an instrument is asked in each step", _resting(1.0), "fires", "ask-ahead"),
        Case("the loop sleeps for the model's threads", _resting(0.0), "silent"),
        Case("it hardly sleeps", _resting(1.0, idle=0.0005), "silent"),
        Case("too few steps", replace(_resting(1.0), scenario=None), "abstains"),
        Case("a sleep before each request", _case(ASLEEP), "fires", "workers-auto"),
        Case("the same without workers", _case(ASLEEP, 0), "fires", "thread-prefetch"),
        Case("workers at one lock", _case(LOCKED), "fires", "shorten-lock"),
        Case("a pool of its own computes", _case(replace(ASLEEP, other_cpu=0.018)), "silent"),
        Case("decoding", patient(BatchCost(0.02), StepCost(0.0, 0.003), workers=2), "silent"),
        Case("waits that nobody saw", _case(replace(ASLEEP, blocked_samples=0)), "abstains"),
    )


FINDING = Entry(
    ID, "input.wait", examine, needs=(steady_steps,), remedies=(WORKERS, PREFETCH, UNLOCK, ASK_AHEAD)
)
