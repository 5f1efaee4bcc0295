"""Workers and the model's own threads want more cores than there are, and the model's threads lose.

## What it means
The model computes on the CPU with several threads, and together with the workers they are more than the
cores. The loop's thread is often ready to run and has to wait for a core.

## Why it costs
A parallel region ends when its slowest thread has ended. One worker on one core holds up all the model's
threads, which spin meanwhile: with many short regions the step can take many times as long.

## How it is measured
Threads: the process's CPU time over the loop thread's. The time that the loop's thread waits for a core is
the kernel's (schedstat). The replay is asked whether fewer workers would be faster.

## Thresholds
Workers and threads exceed the cores by more than half a core (ours). The loop's thread waits for a core for
0.1 of the step (ours), or fewer workers gain 3 % by replay.

## When this advice is wrong
Workers that sleep (network, rate limits) may well be more than the cores. A model of few, large matrix
products gains from a second thread even when it is disturbed. Where strangers hold the cores, the cure is to
have them to oneself.

## Prediction
Replayed with fewer threads: threads that compute a layer together all wait for the one that shares its core
with a worker, and are left 0.42 of their speed (ours, measured). With one thread the model takes as long as
its layers did when they were timed after the training; else at worst as if work was shared perfectly, at best
no longer than now. The worst collapse seen was 204 ms against 18.7 ms a step, two threads against one on a
core that was shared.

## References
torch.utils.data, warning on too many workers; PyTorch Performance Tuning Guide, "Utilize OpenMP"; PyTorch,
"CPU threading and TorchScript inference".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import fewer_workers
from ..analyse.predict import WORTH, best_setting
from ..analyse.scenario import THREADS_MARK
from ..analyse.steps import seconds_in
from ..model.diagnosis import (
    Abstention,
    BatchCost,
    Change,
    Diagnosis,
    Finding,
    Proposal,
    Scenario,
    Step,
    StepCost,
)
from ..model.loops import Loader
from ..model.report import Evidence
from .parts.advice import on_loader
from .parts.entry import Case, Entry, dataloader_loop, given, patient
from .parts.reserving import FEWER, RESERVE, reserve_cores

ID = "workers-too-many"
QUEUE_SHARE = 0.1  # of the step in which the loop's thread waits for a core [catalogue F04]
SLACK_CORES = 0.5  # by which workers and threads may exceed the cores: no worker is always busy (ours)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when threads of the model and workers crowd the cores and the loop is held up by it."""
    loader, scenario = given(diagnosis.loader), given(diagnosis.scenario)
    if not loader.num_workers:
        return None
    crowd, cores = scenario.workers + scenario.threads, scenario.cores
    if crowd <= cores + SLACK_CORES:
        return None
    queue, fewer = _queue_share(diagnosis), fewer_workers(scenario)
    wide = scenario.threads >= THREADS_MARK
    if wide and queue is None and fewer < WORTH:
        return Abstention(ID, "how long the loop's thread waits for a core (schedstat)")
    proposals = [_fewer(scenario, loader)] if fewer >= WORTH else []
    if wide and queue is not None and queue >= QUEUE_SHARE:
        proposals += reserve_cores(diagnosis)
    if not proposals:
        return None
    evidence = [
        Evidence(
            "workers and threads of the model together", "wanted_cores", crowd, "process and thread CPU"
        ),
        Evidence("cores that the job may use", "cores", cores, "affinity and quota"),
        Evidence("share of the step that the loop waits for a core", "loop_queue_share", queue, "schedstat"),
    ]
    known = [one for one in evidence if one.value is not None]
    return Finding(ID, "input.oversubscribed", known, proposals, loader.location)


def _queue_share(diagnosis: Diagnosis) -> float | None:
    """Share of the step in which the loop's thread is ready without a core; None where nobody says."""
    known = [step for step in diagnosis.steps if step.queue is not None]
    wall = seconds_in(known)
    return sum((step.queue or 0.0) * step.steps for step in known) / wall if wall > 0 else None


def _fewer(scenario: Scenario, loader: Loader) -> Proposal:
    best = best_setting(scenario).workers
    why = "take fewer workers: these have no cores of their own"
    return replace(
        on_loader(FEWER, loader, why, num_workers=best),
        title=f"make batches in {best} worker process{'es' if best > 1 else ''}",
        change=Change(workers=best),
    )


def _case(cost: StepCost, workers: int, threads: float, queue: float | None) -> Diagnosis:
    """A CPU model beside workers of 6 ms a batch, on two cores; the loop queues ``queue`` of 14 ms."""
    scene = Scenario((BatchCost(0.006),), (cost,), workers=workers, cores=2.0, threads=threads)
    base = patient(BatchCost(0.006), cost, workers=workers, scenario=scene)
    row: Step = replace(base.steps[0], wall=0.014, queue=queue)
    return replace(base, steps=[row] * len(base.steps))


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say; built on demand, since each is replayed."""
    return (
        Case(
            "four workers beside two threads", _case(StepCost(0.01), 4, 2.0, 0.004), "fires", "reserve-cores"
        ),
        Case("one worker beside one thread", _case(StepCost(0.01), 1, 1.0, 0.0), "silent"),
        Case("four workers, but the loop sleeps", _case(StepCost(0.0, 0.01), 4, 1.0, 0.0), "silent"),
        Case("two threads that always have their cores", _case(StepCost(0.01), 2, 2.0, 0.0002), "silent"),
        Case("nobody counted waits for a core", _case(StepCost(0.01), 4, 2.0, None), "abstains"),
    )


FINDING = Entry(ID, "input.oversubscribed", examine, needs=(dataloader_loop,), remedies=(FEWER, RESERVE))
