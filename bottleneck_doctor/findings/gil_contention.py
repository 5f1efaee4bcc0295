"""The training loop is ready to go on, but another thread holds the interpreter's lock.

## What it means
A second Python thread of the training process is busy: a home-made loader, a logger, a statistics thread.
Python runs one of them at a time.

## Why it costs
After each call that gives the lock away (backward, reading from a queue), the loop waits up to 5 ms to have
it back. It looks like waiting for a device or a disk, and no monitor of the CPU shows it. 100 ms of CPU
beside one busy thread took 224 ms (measured).

## How it is measured
py-spy looks at all threads, and says which were awake. Lines in which the loop's thread sometimes runs and
sometimes does not, while another thread runs, are where it waits for the lock; lines in which it never runs
are sleep or I/O, and do not count. Saving and logging have hooks of their own, and do not count either.

## Thresholds
At least 20 samples; the wait is 0.1 of the loop's time; another thread is on a core for 0.3 of the time
(ours).

## When this advice is wrong
A thread that computes in compiled code does not hold the lock: the loop then runs beside it, and this stays
silent. A free-threaded Python has no such lock. Samples of two seconds are few: the share is rough.

## Prediction
Replay without the wait at best and likely, from half of it: samples are few, and some of the thread's work
may have to stay. Of a thread that feeds the loop: from none of the wait to all of it, half of it likely.

## References
Python, "sys.setswitchinterval"; py-spy; PEP 703.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.interpreter_lock import lock_wait
from ..analyse.predict import WORTH
from ..model.diagnosis import (
    Abstention,
    BatchCost,
    Change,
    Diagnosis,
    FeederLoad,
    Finding,
    Proposal,
    Scenario,
    StepCost,
)
from ..model.instruments import Stack
from ..model.report import Evidence, Fix
from .parts.advice import spread
from .parts.entry import Case, Entry, given, loader_loop, patient
from .parts.lines import STACKS, named

ID = "gil-contention"
HALF = 0.5  # of the wait goes at least: two seconds of samples are few (ours)
WAIT_SHARE = 0.1  # of the loop's time [catalogue F17]

SPAWN = """\
process = multiprocessing.get_context("spawn").Process(target=work, args=(queue,), daemon=True)
# a home-made pool of threads that makes batches: DataLoader(dataset, num_workers=4) instead"""

PROCESS = Proposal(
    id="processes-not-threads",
    title="let that thread's work be done by a process, or less often",
    fix=Fix("move the thread's work into a process of its own", SPAWN),
    effort="hours",
    risk="what the thread shares with the loop must be sent to and fro",
    basis="bound",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the loop's thread waits for a lock while another thread of its process runs."""
    scenario = given(diagnosis.scenario)
    seen = lock_wait(diagnosis.profile, diagnosis.loop)
    if seen is None:
        return Abstention(ID, "stack samples that say which threads were awake (py-spy)")
    if seen.share < WAIT_SHARE:
        return None
    if scenario.feeders.count:  # the replay books it with the making of batches
        factor = (1.0, 1 / (1 - HALF * seen.share), 1 / (1 - seen.share))
    else:
        factor = spread(scenario, Change(python=HALF), Change(python=0.0), Change(python=0.0))
    if factor[1] < WORTH:
        return None
    where = f", mostly in {named(seen.location)}" if seen.location else ""
    evidence = [
        Evidence("share of the loop's samples in which it stood still in a line that works",
                 "lock_wait_share", seen.share, STACKS),
        Evidence(f"share of the time that other threads ran{where}", "other_threads_share", seen.others,
                 STACKS),
    ]  # fmt: skip
    cause = "input.preprocess" if scenario.feeders.count else "host.python"
    most = max(factor[2], gain(scenario, Change(python=0.0, launch=0.0)))
    proposal = replace(PROCESS.at(seen.location), factor=factor, most=most)
    return Finding(ID, cause, evidence, [proposal], seen.location)


LOOP = ["<module> (/data/train.py:60)", "main (/data/train.py:41)"]
OTHER = ["run (/usr/lib/python3.11/threading.py:982)", "count (/data/train.py:20)"]


def _case(main: tuple[int, int | None], other: int | None) -> Diagnosis:
    """A loop of 10 ms, 6 of them blocked: samples of its own line, and how often another thread ran."""
    scene = Scenario((BatchCost(1e-4),), (StepCost(0.004, python=0.006),), cores=2.0)
    base = patient(BatchCost(1e-4), StepCost(0.004, python=0.006), scenario=scene)
    stacks = [
        Stack(1, "trainer", "MainThread", LOOP, *main),
        Stack(1, "trainer", "Thread-1 (count)", OTHER, 100, other),
    ]
    return replace(base, profile=replace(base.profile, stacks=stacks))


def _fed() -> Diagnosis:
    """The same where that thread makes the loop's batches."""
    base = _case((100, 45), 97)
    scene = Scenario((BatchCost(1e-4),), (StepCost(0.004),), cores=2.0, feeders=FeederLoad(1), crowded=0.006)
    return replace(base, scenario=scene)


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say; built on demand, since each is replayed."""
    return (
        Case("a thread that counts in Python", _case((100, 45), 97), "fires", "processes-not-threads"),
        Case("a thread that makes batches in Python", _fed(), "fires", "processes-not-threads"),
        Case("the line sleeps", _case((100, 2), 97), "silent"),
        Case("the other thread sleeps", _case((100, 45), 3), "silent"),
        Case("both run at once", _case((100, 97), 97), "silent"),
        Case("nobody saw who was awake", _case((100, None), None), "abstains"),
        Case("no loop was seen", replace(_case((100, 45), 97), loop=None), "abstains"),
    )


FINDING = Entry(ID, "host.python", examine, needs=(loader_loop,), remedies=(PROCESS,))
