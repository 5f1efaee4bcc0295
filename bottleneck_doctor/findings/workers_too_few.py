"""The workers are always busy and the loop still waits, while the machine has room for more of them.

## What it means
Every worker makes one batch after another without a pause, and that is not fast enough. Nothing else is
short: cores are free, or the workers sleep most of the time.

## Why it costs
With W workers a batch comes every S / W seconds, S being what one batch takes. The loop, which could use one
every C seconds, waits for the difference.

## How it is measured
The share of the workers' time spent inside fetches, from hooks in each worker, and the share of the step
that the loop spends inside the loader's `next`. A fetch is split into CPU, waiting for a core and sleep by
the kernel's books.

## Thresholds
Data wait above 5 % of the step: the rule of the profiler's TensorBoard plugin. Workers busy for 0.8 of their
time: 0.9, less what the gaps between epochs hide (ours). More workers must bring 3 %, by replay on the cores
that are left.

## When this advice is wrong
Where the CPU is full, more workers share the same cores: see host-cpu-saturated. Where the storage or a
service behind the data set is at its limit, each of more readers waits longer. Each worker may hold a copy
of the data set's Python objects, and of its open connections.

## Prediction
Replay of the measured batches with W workers on the cores that are left; the smallest W within 3 % of the
best. What twice the workers would bring, the usual advice, is said beside it.

## References
torch.utils.data, "Multi-process data loading"; PyTorch Performance Tuning Guide, "Enable asynchronous data
loading and augmentation".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.predict import WORTH, best_setting, doubled
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Inputs, StepCost
from ..model.report import Evidence
from .parts.advice import dearest, more_workers, takes_turns, wait_evidence, waits
from .parts.entry import Case, Entry, dataloader_loop, given, inputs_of, patient
from .parts.lines import crowded
from .parts.remedies import WORKERS

ID = "workers-too-few"
BUSY_SHARE = 0.8  # of the workers' time in fetches [catalogue F02: 0.9; ours: less the gaps of epochs]
CAUSES = ("input.preprocess", "input.collate", "input.storage", "input.network", "input.wait")


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when busy workers keep the loop waiting and the replay says that more of them would help."""
    loader, scenario, busy = given(diagnosis.loader), given(diagnosis.scenario), diagnosis.inputs.busy
    if not loader.num_workers:
        return None
    best = best_setting(scenario)
    more = Change(workers=best.workers)
    if not waits(diagnosis) or best.workers <= scenario.workers or gain(scenario, more) < WORTH:
        return None
    if busy is None:
        return Abstention(ID, "how busy the workers are: fewer than two fetches were timed")
    if busy < BUSY_SHARE or takes_turns(diagnosis) or crowded(diagnosis):
        return None
    count = float(loader.num_workers)
    evidence = [
        Evidence("workers that make batches", "num_workers", count, "DataLoader arguments"),
        Evidence("share of their time in which they do", "worker_busy_fraction", busy, "hooks on fetch"),
        Evidence("what twice the workers would bring", "doubled_speedup", doubled(scenario), "replay"),
        *wait_evidence(diagnosis),
    ]
    proposals = more_workers(diagnosis, title=f"make batches in {best.workers} worker processes")
    return Finding(ID, dearest(diagnosis, CAUSES), evidence, proposals, loader.location)


SLOW, COST = BatchCost(0.0, wait=0.02), StepCost(0.0, 0.005)
UNTIMED = replace(inputs_of(SLOW, 1, 0.02), busy=None)


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say; built on demand, since each is replayed."""
    return (
        Case("one worker waits 20 ms for each batch", patient(SLOW, COST, 1), "fires", "workers-auto"),
        Case(
            "one worker computes on one of two cores",
            patient(BatchCost(0.02), COST, 1),
            "fires",
            "workers-auto",
        ),
        Case("the cores are full", patient(BatchCost(0.02), StepCost(0.0, 0.002), 4), "silent"),
        Case("the workers keep up", patient(BatchCost(0.004), StepCost(0.0, 0.01), 1), "silent"),
        Case("no workers at all", patient(SLOW, COST), "silent"),
        Case("nobody saw the workers", patient(SLOW, COST, 1, inputs=UNTIMED), "abstains"),
        Case("no fetch was timed", patient(SLOW, COST, 1, inputs=Inputs()), "abstains"),
    )


FINDING = Entry(ID, "input.preprocess", examine, needs=(dataloader_loop,), remedies=(WORKERS,))
