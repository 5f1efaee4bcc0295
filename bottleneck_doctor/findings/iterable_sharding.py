"""Workers read the same samples of an iterable data set, or some of them have nothing to read.

## What it means
Each worker holds a copy of the data set and iterates over it from its start. Unless the data set asks for
its worker's number, every sample comes once per worker. Where it shards by files and has fewer files than
workers, some workers end at once.

## Why it costs
W workers make an epoch W times as long, and the model sees each sample W times without anybody noticing:
losses look better than they are. Idle workers are workers that you do not have.

## How it is measured
Checksums of the first eight batches of each worker, compared between workers at the same place. Fetches are
counted per worker.

## Thresholds
At least four pairs of batches, 0.9 of them equal (ours), and batches of one worker that differ from each
other: constant data proves nothing. A worker is idle below 0.05 of the busiest one's fetches.

## When this advice is wrong
Endless random streams may repeat on purpose, though equal random numbers in all workers seldom are meant.
Random augmentation hides the repetition: silence is no proof. A recipe that counts steps, not epochs, gains
no time by sharding.

## Prediction
Equal streams: nothing is promised, since no step becomes faster; a recipe that counts epochs ends W times as
early, as an epoch then has 1/W of the steps. Idle workers: replay from those who work to all of them.

## References
torch.utils.data.IterableDataset, whose page warns of duplicates; torch.utils.data.get_worker_info.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ..analyse.inputs import fetches_of, making_of
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Inputs, Proposal, StepCost
from ..model.fetches import FetchTable, Making
from ..model.loops import Loader
from ..model.report import Evidence, Fix
from .parts.advice import place_of, spread, waits
from .parts.entry import Case, Entry, dataloader_loop, given, patient

ID = "iterable-sharding"
COMPARED_AT_LEAST = 4  # pairs of batches (ours)
EQUAL_SHARE = 0.9  # of them: one may be torn by a worker that was restarted (ours)
IDLE_SHARE = 0.05  # of the busiest worker's fetches [catalogue F16]
FETCHES_AT_LEAST = 40  # of the busiest worker, or an idle one is not told from a late one (ours)

SHARD = Proposal(
    id="shard-by-worker",
    title="give each worker its own part",
    fix=Fix(
        "let the data set ask which worker it is in",
        "def __iter__(self):\n"
        "    info, source = torch.utils.data.get_worker_info(), self.samples()\n"
        "    return itertools.islice(source, info.id, None, info.num_workers) if info else source",
    ),
    risk="losses change, since each sample comes once; steps themselves are as long as before",
    basis="bound",
)
MORE_SHARDS = "split the data set into {count} files or more, so that each worker has as many as any other"
RESHARD = Proposal(
    id="more-shards",
    title="cut the data set into enough shards for all workers",
    fix=Fix("re-shard the data set", MORE_SHARDS.format(count=4)),
    apply="convert",
    effort="hours",
    risk="samples come in another order",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when two workers gave the same batches, or when one gave none."""
    loader, place = given(diagnosis.loader), place_of(diagnosis)
    workers = loader.num_workers
    if loader.dataset_kind != "iterable" or workers < 2:
        return None
    compared, equal = making_of(diagnosis.profile, loader).firstlings
    working = _working(fetches_of(diagnosis.profile, loader.key))
    evidence: list[Evidence] = []
    proposals: list[Proposal] = []
    if compared >= COMPARED_AT_LEAST and equal >= EQUAL_SHARE * compared:
        text = "share of the workers' first batches that another worker gave as well"
        evidence.append(Evidence(text, "equal_batches_share", equal / compared, "checksums"))
        evidence.append(
            Evidence("pairs of batches compared", "compared_batches", float(compared), "checksums")
        )
        title = f"give each worker its own part: an epoch then has 1/{workers} of the steps"
        most = float(workers)
        proposals.append(replace(SHARD.at(place), title=title, factor=(1.0, 1.0, most), most=most))
    if working and working < workers and waits(diagnosis):
        text = f"workers of {workers} that fetched anything to speak of"
        evidence.append(Evidence(text, "working_workers", float(working), "hook on fetch"))
        few, every = replace(given(diagnosis.scenario), workers=working), Change(workers=workers)
        factor = spread(few, Change(), every, every)
        proposals.append(replace(RESHARD.at(place, MORE_SHARDS.format(count=workers)), factor=factor))
    if evidence:
        return Finding(ID, "input.preprocess", evidence, proposals, place)
    return None if compared else Abstention(ID, "comparable first batches from at least two workers")


def _working(table: FetchTable | None) -> int:
    """Workers with their part of the fetches; 0 where too few were seen to say."""
    counts = Counter(table.worker) if table is not None else Counter[int]()
    most = max(counts.values(), default=0)
    return sum(count >= IDLE_SHARE * most for count in counts.values()) if most >= FETCHES_AT_LEAST else 0


STREAM = Loader("1:1", "dataloader", 1, "Stream", dataset_kind="iterable", batch_size=32)


def _case(
    firstlings: tuple[int, int], workers: list[int] | None = None, loader: Loader = STREAM
) -> Diagnosis:
    """Two workers over an iterable data set; ``workers`` made the fetches."""
    base = patient(BatchCost(0.02), StepCost(0.0, 0.004), workers=2, loader=loader)
    makings, made = [Making("1:1", 400, firstlings=firstlings)], workers or [0, 1] * 100
    table = FetchTable("1:1", len(made), t=[0.01 * n for n in range(len(made))], worker=made)
    return replace(base, profile=replace(base.profile, makings=makings, fetches=[table]))


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say; built on demand, since each is replayed."""
    return (
        Case("both workers read everything", _case((8, 8)), "fires", "shard-by-worker"),
        Case("one shard for two workers", _case((0, 0), [0] * 100), "fires", "more-shards"),
        Case("each worker has its part", _case((8, 0)), "silent"),
        Case("a map-style data set", _case((0, 0), loader=replace(STREAM, dataset_kind="map")), "silent"),
        Case("batches without bytes to compare", _case((0, 0)), "abstains"),
        Case("no fetch was timed", replace(_case((8, 8)), inputs=Inputs()), "abstains"),
    )


FINDING = Entry(ID, "input.preprocess", examine, needs=(dataloader_loop,), remedies=(SHARD, RESHARD))
