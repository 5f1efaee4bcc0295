"""Cases of the findings in sample_code.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.code import FunctionSource
from bottleneck_doctor.model.diagnosis import BatchCost, Diagnosis, StepCost
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.loops import Loader, Payload, Repeats
from bottleneck_doctor.model.run import Machine, Process
from tests.findings.builders import PLACE, Case, abstains, fires, inputs_of, silent, steady_run

# python-sample-code-hot
BELOW = ["_worker_loop (w.py:1)", "fetch (/x/site-packages/torch/utils/data/_utils/fetch.py:54)"]
PARSING = [*BELOW, "Logs.__getitem__ (/data/train.py:31)", "loads (/usr/lib/python3.11/json/__init__.py:346)"]
TAKING = [*BELOW, "Logs.__getitem__ (/data/train.py:32)"]
ASKS = "def __getitem__(self, i):\n    row = self.base\n    return row.execute(ONE, (i,)).fetchone()\n"
LOGS = "def __getitem__(self, index):\n    text = self.texts[index]\n    return smooth(text)\n"
SMOOTH = """\
def smooth(text):
    for place in range(1, len(text)):
        text[place] = 0.5 * (text[place] + text[place - 1])
"""
TEXTS = "def __getitem__(self, batch):\n    for one in batch:\n        yield encode(one.lower(), random())\n"
CELLS = "def __getitem__(self, i):\n    row = self.df.iloc[i]\n    return np.log1p(row[NAMES].to_numpy())\n"
FRAME = "take (/x/site-packages/pandas/core/frame.py:9)"
FLIPS = "def __getitem__(self, i):\n    x = {}(i)\n    x = cells(x)\n    return {}(x)\n"
WORK = BatchCost(0.02)


def _code_case(
    hot: tuple[int, int | None], work: BatchCost = WORK, seen: int = 100, path: list[str] = PARSING
) -> Diagnosis:
    """Two workers, with ``hot`` of their stack samples in the hot path: (all, running)."""
    base = steady_run(work, StepCost(0.0, 0.002), workers=2)
    awake = None if hot[1] is None else seen - hot[0]
    stacks = [
        Stack(7, "worker", "MainThread", path, *hot),
        Stack(7, "worker", "MainThread", TAKING, seen - hot[0], awake),
    ]
    workers = [Process(1, 0, "trainer", 0.0), Process(7, 1, "worker", 0.0, loader="1:1")]
    sources = [
        FunctionSource("/data/train.py", "__getitem__", 30, LOGS),
        FunctionSource("/data/train.py", "smooth", 40, SMOOTH),
    ]
    return replace(base, profile=replace(base.profile, stacks=stacks, processes=workers, sources=sources))


def _written(text: str, path: list[str] = TAKING) -> Diagnosis:
    """The hot line is the third line of ``text``."""
    base = _code_case((90, 88), path=path)
    source = FunctionSource("/data/train.py", "__getitem__", 30, text)
    return replace(base, profile=replace(base.profile, sources=[source]))


def _flipped(first: str, last: str) -> Diagnosis:
    """Repeated samples differ; the hot line is in a function without random draws."""
    sick = _written(FLIPS.format(first, last), [*TAKING, "cells (/data/train.py:40)"])
    sources = [
        *sick.profile.sources,
        FunctionSource("/data/train.py", "cells", 40, "def cells(x): unique(x)"),
    ]
    repeats = [Repeats("1:1", 64, 20, 6144.0)]
    return replace(sick, profile=replace(sick.profile, sources=sources, repeats=repeats))


def python_sample_code_hot() -> tuple[Case, ...]:
    looping = [*TAKING, "smooth (/data/train.py:42)"]
    return (
        fires("every sample is parsed from JSON", _code_case((90, 88)), "columnar-numpy"),
        fires("the same, running threads not known", _code_case((90, None)), "columnar-numpy"),
        fires("a loop over elements", _code_case((90, 88), path=looping), "columnar-numpy"),
        fires("a loop over texts", _written(TEXTS), "cheaper-preprocess -columnar-numpy"),
        fires("a row of a data frame", _written(CELLS, [*TAKING, FRAME]), "columnar-numpy"),
        fires("cells, flipped at random", _flipped("load", "random_flip"), "precompute-deterministic"),
        fires("cells of what was drawn", _flipped("thin_randomly", "flip"), "cheaper-preprocess"),
        fires("rows of a database, one by one", _written(ASKS), "batched-query"),
        fires("a line that takes long", _code_case((90, 88), path=TAKING), "precompute-deterministic"),
        silent("the line sleeps", _code_case((90, 2), BatchCost(0.004, wait=0.03))),
        silent("sleep is not known", _code_case((90, None), BatchCost(0.004, wait=0.03))),
        abstains("no stacks", _code_case((8, 8), seen=10)),
    )


# per-sample-indexing
CALL = {"batch_size": "1024", "shuffle": "True"}
ROWS = Loader("1:1", "dataloader", 1, "TensorDataset", tensor_dataset=True, collate="default_collate")
TABLE = replace(ROWS, batch_size=1024, dataset_length=100_000, arguments=CALL, location=PLACE)
INDEXING_WORK, COST = BatchCost(0.0026, collate=0.002), StepCost(0.001)


def _indexing_case(
    work: BatchCost = INDEXING_WORK, loader: Loader = TABLE, workers: int = 0, tensors: float = 2.0
) -> Diagnosis:
    """Batches of 1024 rows of 16 floats: 4.6 ms to pick and stack, 1 ms to use."""
    inputs = inputs_of(work, workers, 0.006, samples=1024.0)
    base = steady_run(work, COST, workers=workers, inputs=inputs, loader=loader)
    payloads = [Payload("1:1", 8, tensors, 1024 * 64.0)] if tensors else []
    return replace(base, profile=replace(base.profile, payloads=payloads))


def _asked() -> Diagnosis:
    """The rows are asked of a database."""
    base = _indexing_case()
    row = [BELOW[1], "Rows.__getitem__ (/data/rows.py:32)"]
    source = FunctionSource("/data/rows.py", "__getitem__", 30, ASKS)
    facts = replace(base.profile, stacks=[Stack(1, "trainer", "MainThread", row, 90, 90)], sources=[source])
    return replace(base, profile=facts)


def per_sample_indexing() -> tuple[Case, ...]:
    return (
        fires("a tensor data set read row by row", _indexing_case(), "batched-getitems"),
        fires("the same in two workers", _indexing_case(workers=2), "batch-sampler-index"),
        silent("rows are also transformed", _indexing_case(BatchCost(0.05, collate=0.002))),
        silent("a whole batch at once already", _indexing_case(loader=replace(TABLE, batched_getitems=True))),
        silent("collate pads", _indexing_case(BatchCost(0.001, 0.01), replace(TABLE, collate="pad"))),
        silent("rows of a database", _asked()),
        silent("samples are kept apart", _indexing_case(tensors=1024.0)),
        abstains("no batch was inspected", _indexing_case(tensors=0.0)),
    )


# repeated-deterministic-preprocess
REPEATS_WORK = BatchCost(0.02)


def _repeats_case(
    equal: int, compared: int = 64, work: BatchCost = REPEATS_WORK, memory: int | None = 64 << 30
) -> Diagnosis:
    """Two workers make batches of 32 samples of 6 KB at a cost of ``work``; the loop takes 1 ms."""
    base = steady_run(work, StepCost(0.0, 0.001), workers=2)
    machine = Machine("", "", "", 2, 2.0, memory_bytes=memory)
    repeats = [Repeats("1:1", compared, equal, 6144.0)] if compared else []
    return replace(base, profile=replace(base.profile, repeats=repeats, machine=machine))


def repeated_deterministic_preprocess() -> tuple[Case, ...]:
    return (
        fires("every sample comes out the same", _repeats_case(64), "cache-decoded-ram"),
        fires("no memory to keep them in", _repeats_case(64, memory=None), "precompute-deterministic"),
        silent("half of the samples are flipped", _repeats_case(31)),
        silent("samples are copied out of memory", _repeats_case(64, work=BatchCost(0.0005))),
        abstains("one epoch only", _repeats_case(0, compared=0)),
    )
