"""Worker processes are started again at every epoch, or even at every step.

## What it means
Each `iter(loader)` starts the workers anew: fork or spawn, `worker_init_fn`, imports, opening the data. The
first batch comes when they are ready.

## Why it costs
The loop waits meanwhile, once per epoch. Where each step says `next(iter(loader))` it pays for all workers,
and for all the batches that they prefetch, to get one.

## How it is measured
How long the loop waits at each beginning: building the iterator and the first batch, less what a batch costs
to make. How many batches each iterator gave, and how many worker processes the loader has had.

## Thresholds
Beginnings take more than 2 % of an epoch (ours). Iterators that give less than 10 batches while the data set
has more are the idiom `next(iter(loader))` (ours).

## When this advice is wrong
The first epoch's start cannot be avoided. Persistent workers keep their copy of the data set: changes that
the main process makes to it between epochs are not seen by them. They do not help where the loader itself is
built again.

## Prediction
Where starting takes more of the run than its steps: of the whole run, without all starts but the first (at
least 70 % of them, ours); fewer workers start in proportion, as interpreters that import torch fill the
cores. Else replay with 2 ms per beginning (measured: fork 0.07 to 0.28 s, spawn 2.4 to 5 s, persistent
workers 0.002 s); the pipeline still fills anew at each epoch. For `next(iter(loader))` this is the least:
its iterator ends nothing. Without workers: as in `ipc-overhead`; of a whole run, all starts, and the batches
made in the loop.

## References
torch.utils.data, "persistent_workers"; PyTorch Performance Tuning Guide.
"""

from __future__ import annotations

from dataclasses import replace
from math import floor
from statistics import fmean

from ..analyse.whole_run import life_of
from ..model.diagnosis import (
    Abstention,
    BatchCost,
    Change,
    Diagnosis,
    EpochStart,
    Finding,
    Proposal,
    Scenario,
    StepCost,
)
from ..model.loops import Epochs, Loader, Loop
from ..model.report import Evidence, Fix
from ..model.run import Process
from .parts.advice import HOOK, on_loader
from .parts.entry import Case, Entry, dataloader_loop, given, loop_of, patient
from .parts.reserving import FEWER, without_workers

ID, CAUSE = "worker-respawn", "input.worker_startup"
START_SHARE = 0.02  # of an epoch [catalogue F15]
FEW_BATCHES = 10  # from one iterator: fewer, and it was not made to be iterated [catalogue F15]
MOST = 0.5  # of all starts are spared by keeping the workers: then their number is no matter (ours)
PERSISTENT_S = 0.002  # for an epoch's beginning with persistent workers [catalogue F15, measured]

KEEP_WORKERS = Proposal(
    id="persistent-workers",
    title="keep the workers between epochs",
    fix=Fix("let the loader keep its workers", "DataLoader(..., persistent_workers=True)"),
    apply="hook",
    risk="workers do not see later changes to the data set; the loader must be built only once",
)
BUILD_ONCE = Proposal(
    id="persistent-workers",
    title="build the loader once, before the loop over epochs",
    fix=Fix(
        "its persistent workers end with it",
        "loader = DataLoader(...)     # before: for epoch in range(epochs):",
    ),
    risk="workers do not see later changes to the data set",
)
NEXT_BATCH = """\
batches = iter(loader)                              # once, before the loop over steps
for step in range(steps):
    try:
        batch = next(batches)
    except StopIteration:
        batches = iter(loader)
        batch = next(batches)"""
HOIST = Proposal(
    id="hoist-iterator",
    title="make the iterator once, not at every step",
    fix=Fix("take `iter(loader)` out of the loop over steps", NEXT_BATCH),
    risk="batches then come from whole shuffled passes instead of always their beginnings",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the beginnings of epochs cost a share of them that persistent workers would save, or where
    starting workers is what the run's time goes into."""
    of_run = _in_run(diagnosis) if diagnosis.subject == "run" else None
    return of_run or _in_steps(diagnosis)


def _in_run(diagnosis: Diagnosis) -> Finding | None:
    """The run's own account of it: the steps were too few to be judged, or the workers started only once."""
    loader, whole = diagnosis.loader, diagnosis.whole
    life = life_of(diagnosis.profile, diagnosis.loop)
    if loader is None or not loader.num_workers or life is None or whole.starting_s <= 0:
        return None
    started = sum(one.role == "worker" for one in diagnosis.profile.processes)
    known = (
        ("share of the run that goes into starting workers", "worker_start_share",
         whole.starting_s / max(whole.run_s, 1e-9)),
        ("time in which the loop waits for workers to start and to end", "worker_start_s", whole.starting_s),
        ("time in training steps", "training_steps_s", whole.steps_s),
        ("workers started", "workers_started", float(started)),
    )  # fmt: skip
    evidence = [Evidence(*one, HOOK) for one in known]
    proposals = []
    again = 1 - 1 / max(1, life.beginnings)  # of the beginnings are not the first
    later_s = max(0.0, life.starting_s - life.first_start_s)
    later_s += again * (life.starting_evaluation_s + life.stopping_s)
    if life.beginnings > 1 and later_s > 0:
        proposals.append(_of_the_run(_persisting(loader), whole.run_s, later_s, later_s))
    few = max(1, floor(diagnosis.profile.machine.cores))
    spared = whole.starting_s * (1 - few / loader.num_workers)
    alone = _spared_by_none(diagnosis, whole.starting_s)
    if alone > max(spared, later_s):
        proposals.append(_of_the_run(_fewer(loader, 0), whole.run_s, alone, whole.starting_s))
    elif spared > 0 and later_s < MOST * whole.starting_s:
        proposals.append(_of_the_run(_fewer(loader, few), whole.run_s, spared, whole.starting_s))
    return Finding(ID, CAUSE, evidence, proposals, loader.location)


def _of_the_run(proposal: Proposal, run_s: float, spared_s: float, most_s: float) -> Proposal:
    """The cure with what it brings the whole run."""
    spared = (0.7 * spared_s, spared_s, most_s)
    low, likely, high = (run_s / max(run_s - one, 1e-2 * run_s) for one in spared)
    return replace(
        proposal, title=f"{proposal.title} (gain of the whole run)", change=None, factor=(low, likely, high),
        basis="amdahl", scope="run",
    )  # fmt: skip


def _spared_by_none(diagnosis: Diagnosis, starting_s: float) -> float:
    """Seconds of the run without any worker: the loop makes its batches itself, one after the other."""
    inputs, loop = diagnosis.inputs, diagnosis.loop
    if loop is None or not inputs.batches:
        return 0.0
    return starting_s - loop.steps * max(0.0, inputs.wall - inputs.queue)


def _fewer(loader: Loader, few: int) -> Proposal:
    why = "no more workers than cores" if few else "the loop makes these batches faster than workers start"
    fewer = on_loader(FEWER, loader, f"{why}: each has to start and to import", num_workers=few)
    return replace(fewer, title=f"start fewer workers: {few or 'none'} instead of {loader.num_workers}")


def _in_steps(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """The steady steps' account of it."""
    if missing := dataloader_loop(diagnosis):
        return Abstention(ID, missing)
    loader, loop, scenario = given(diagnosis.loader), given(diagnosis.loop), given(diagnosis.scenario)
    if not loader.num_workers:
        return None
    started = sum(one.role == "worker" and one.loader == loader.key for one in diagnosis.profile.processes)
    if loader.persistent_workers and started <= loader.num_workers:
        return None
    if not scenario.epoch.steps:
        return Abstention(ID, "the beginning of a second epoch: this run had one")
    start_s = scenario.epoch.seconds
    share = start_s / (scenario.epoch.steps * diagnosis.step_s)
    if share <= START_SHARE:
        return None
    evidence = [
        Evidence("share of an epoch that its beginning takes", "epoch_start_share", share, HOOK),
        Evidence("wait at an epoch's beginning, beyond one batch", "epoch_start_s", start_s, HOOK),
        Evidence("batches from one iterator", "epoch_batches", float(scenario.epoch.steps), HOOK),
        *(
            [Evidence("workers started for this loader", "workers_started", started, "agents")]
            if started
            else []
        ),
    ]
    once = Change(startup=min(1.0, PERSISTENT_S / max(start_s, 1e-12)))
    proposals = [replace(HOIST.at(loader.location), change=once)] if _abandoned(loop, loader) else []
    proposals.append(replace(_persisting(loader), change=once))
    # none need to start, which the replay of steps does not count
    proposals += without_workers(
        diagnosis, "the loop makes these batches faster than workers start", gain=1.0
    )
    return Finding(ID, CAUSE, evidence, proposals, loader.location)


def _abandoned(loop: Loop, loader: Loader) -> bool:
    """Whether iterators are dropped after a few batches of a longer data set."""
    if not loop.epochs.batches:
        return False
    taken = fmean(loop.epochs.batches)
    whole = (loader.dataset_length or 0) / (loader.batch_size or 1)
    return taken < FEW_BATCHES and (not loader.dataset_length or taken < whole - 1)


def _persisting(loader: Loader) -> Proposal:
    """Where workers are to persist already and yet were started again, the loader itself was built again."""
    if loader.persistent_workers:
        return BUILD_ONCE.at(loader.location)
    return on_loader(KEEP_WORKERS, loader, persistent_workers=True)


WORK, COST = BatchCost(0.002), StepCost(0.0, 0.003)


def _case(steps: int, start: float, persistent: bool = False, started: int = 0) -> Diagnosis:
    """Two workers; epochs of so many steps of 3 ms, each with that many seconds to begin."""
    scene = Scenario((WORK,), (COST,), workers=2, cores=2.0, epoch=EpochStart(steps, start))
    base = patient(WORK, COST, workers=2, scenario=scene)
    assert base.loader is not None
    loader = replace(base.loader, persistent_workers=persistent)
    loop = replace(loop_of(400), epochs=Epochs([0.0], [0.0], [0.0], [steps]))
    seen = [Process(place, 1, "worker", 0.0, loader=loader.key) for place in range(started)]
    return replace(base, loader=loader, loop=loop, profile=replace(base.profile, processes=seen))


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say; built on demand, since each is replayed."""
    return (
        Case("epochs of twenty short steps", _case(20, 0.12), "fires", "persistent-workers"),
        Case("next(iter(loader)) at every step", _case(1, 0.12), "fires", "hoist-iterator"),
        Case("the loader is built anew each epoch", _case(20, 0.12, True, 6), "fires", "persistent-workers"),
        Case("epochs of ten thousand steps", _case(10_000, 0.12), "silent"),
        Case("persistent workers", _case(20, 0.05, True, 2), "silent"),
        Case("one epoch", _case(0, 0.0), "abstains"),
    )


FINDING = Entry(ID, CAUSE, examine, remedies=(KEEP_WORKERS, BUILD_ONCE, HOIST, FEWER))
