"""Real runs of trainings whose batches come from other libraries, or from a pool of the script's own."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

import bottleneck_doctor
from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.codec import read_profile
from tests.commands.running import bdoc, script

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.alone]  # shares of time are asserted

PRELUDE = """
import os, sys
import numpy
import torch
from torch.utils.data import DataLoader, Dataset

STEPS = 200
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def features(row):
    total = 0
    for place in range(60_000):  # the slow line
        total += place * place
    return torch.as_tensor(row, dtype=torch.float32) + total % 2

def rows():
    generator = numpy.random.default_rng(0)
    return [generator.random(64, dtype="float32") for _ in range(8 * STEPS)]

def train(batches):
    for step, batch in enumerate(batches):
        if isinstance(batch, (dict, list, tuple)):
            batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
        optimizer.zero_grad()
        model(torch.as_tensor(batch).reshape(-1, 64)).square().mean().backward()
        optimizer.step()
        if step + 1 == STEPS:
            break

class Rows(Dataset):
    def __init__(self):
        self.rows = rows()

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return features(self.rows[index])
"""
STATEFUL = """
from torchdata.stateful_dataloader import StatefulDataLoader

loader = StatefulDataLoader(Rows(), batch_size=8, num_workers={workers})
kept = []
def remembered():
    for batch in loader:
        kept[:] = [loader.state_dict()]
        yield batch

if __name__ == "__main__":
    train(remembered())
"""
NODES = """
from torchdata.nodes import Batcher, IterableWrapper, Loader, ParallelMapper, Prefetcher

if __name__ == "__main__":
    node = ParallelMapper(IterableWrapper(rows()), features, num_workers=2, method="thread")
    train(map(torch.stack, Loader(Prefetcher(Batcher(node, 8), 4))))
"""
WEBDATASET = """
import webdataset

if __name__ == "__main__":
    with webdataset.ShardWriter("rows-%d.tar", maxcount=4 * STEPS) as shards:
        for number, row in enumerate(rows()):
            shards.write({{"__key__": f"{{number:06}}", "x.npy": row}})
    data = webdataset.WebDataset("rows-{{0..1}}.tar", shardshuffle=False).shuffle(50).decode()
    data = data.to_tuple("x.npy").map_tuple(features).batched(8)
    train(webdataset.WebLoader(data, batch_size=None, num_workers={workers}))
"""
SPDL = """
from spdl.pipeline import PipelineBuilder

if __name__ == "__main__":
    built = PipelineBuilder().add_source(rows()).pipe(features, concurrency=2).aggregate(8).pipe(torch.stack)
    pipeline = built.add_sink(4).build(num_threads=2)
    with pipeline.auto_stop():
        train(pipeline)
"""
DATASETS = """
import datasets

def transformed(batch):
    return {{"x": [features(row) for row in batch["x"]]}}

if __name__ == "__main__":
    data = datasets.Dataset.from_dict({{"x": [row.tolist() for row in rows()]}})
    train(DataLoader(data.with_transform(transformed), batch_size=8, num_workers={workers}))
"""
STREAMED = """
import datasets

if __name__ == "__main__":
    datasets.Dataset.from_dict({{"x": [row.tolist() for row in rows()]}}).to_parquet("rows.parquet")
    data = datasets.load_dataset("parquet", data_files="rows.parquet", split="train", streaming=True)
    data = data.shuffle(buffer_size=64).map(lambda row: {{"x": features(row["x"])}})
    train(DataLoader(data.with_format("torch"), batch_size=8))
"""
LITDATA = """
import litdata

numbers = rows()

def one(number):
    return numbers[number]

class Streamed(litdata.StreamingDataset):
    def __getitem__(self, index):
        return features(super().__getitem__(index))

if __name__ == "__main__":
    places = list(range(len(numbers)))
    litdata.optimize(fn=one, inputs=places, output_dir="chunks", chunk_bytes="64KB", num_workers=1)
    train(litdata.StreamingDataLoader(Streamed("chunks"), batch_size=8))
"""
MOSAIC = """
import streaming

class Streamed(streaming.StreamingDataset):
    def __getitem__(self, index):
        return features(super().__getitem__(index)["x"])

if __name__ == "__main__":
    with streaming.MDSWriter(out="shards", columns={{"x": "ndarray:float32:64"}}) as shards:
        for row in rows():
            shards.write({{"x": row}})
    data = Streamed(local="shards", batch_size=8)
    train(streaming.StreamingDataLoader(data, batch_size=8, num_workers={workers}))
"""
RAY = """
import tempfile
import ray

def transformed(row):
    return {{"x": features(row["data"]).numpy()}}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir="/tmp") as place:  # the path of a socket has at most 107 bytes
        ray.init(num_cpus=2, include_dashboard=False, _temp_dir=place)
        blocks = numpy.array_split(numpy.stack(rows()), STEPS)
        data = ray.data.from_numpy(blocks).map(transformed)
        train(data.iter_torch_batches(batch_size=8))
        ray.shutdown()
"""
DALI = """
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import DALIGenericIterator

numbers = rows()

def one(sample):
    if sample.iteration >= STEPS:
        raise StopIteration
    return features(numbers[sample.idx_in_epoch]).numpy()

@pipeline_def(batch_size=8, num_threads=2, device_id=None)
def pipeline():
    return fn.external_source(source=one, batch=False, dtype=types.FLOAT)

if __name__ == "__main__":
    train(batch[0]["x"] for batch in DALIGenericIterator([pipeline()], ["x"]))
"""
LIBRARIES = {
    "torchdata": {"StatefulDataLoader": STATEFUL, "nodes": NODES},
    "webdataset": {"WebLoader": WEBDATASET},
    "spdl": {"threads": SPDL},
    "datasets": {"in memory": DATASETS, "streaming": STREAMED},
    "litdata": {"streaming": LITDATA},
    "streaming": {"StreamingDataLoader": MOSAIC},
    "ray": {"torch batches": RAY},
    "nvidia": {"DALI, a Python source": DALI},
}
CASES = [
    pytest.param(library, source, workers, id=f"{library}: {name}, {workers} workers")
    for library, sources in LIBRARIES.items()
    for name, source in sources.items()
    for workers in ((0, 2) if source is STATEFUL else (2,))  # without workers the others are torch's loader
]


@pytest.mark.parametrize(("library", "source", "workers"), CASES)
def test_what_makes_the_batches_is_found(library: str, source: str, workers: int, tmp_path: Path) -> None:
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    name = script(tmp_path, PRELUDE + source.format(workers=workers))
    told = bdoc(tmp_path, "-q", name)
    assert told.status == 0, told.err
    report = write_up(read_profile(tmp_path / "profile.json"))
    assert report.verdict.cause in ("input.preprocess", "input.oversubscribed"), report.verdict
    # Threads that make batches beside the loop hide a part that depends on the machine.
    assert report.metrics["data_wait_fraction"].value > 0.1


# Actors of a policy: torch computes in the pool with as many threads as in the training unless told otherwise
TRAINING = """
import multiprocessing, time, torch

def play(seed):
    states, policy = torch.randn(64, 256), torch.randn(256, 256) / 16
    for _ in range(40):
        states = torch.tanh(states @ policy)
    return states.numpy()

def main():
    pool = multiprocessing.get_context("fork").Pool(2{initializer})
    model = torch.nn.Linear(256, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    end = time.monotonic() + 12
    while time.monotonic() < end:
        batch = torch.cat([torch.from_numpy(one) for one in pool.map(play, range({tasks}), chunksize=1)])
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    pool.close()
    pool.join()

main()
"""
ALONE = ", initializer=torch.set_num_threads, initargs=(1,)"


@pytest.mark.parametrize("initializer", ["", ALONE], ids=["torch's own threads", "one thread each"])
def test_processes_that_compute_with_several_threads_each_are_told_to_use_one(
    initializer: str, tmp_path: Path
) -> None:
    source = TRAINING.format(initializer=initializer, tasks=8 if initializer else 2)
    told = bdoc(tmp_path, "-o", "told.json", script(tmp_path, source), fresh=True)
    assert told.status == 0, told.err
    report = bottleneck_doctor.load(str(tmp_path / "told.json"))
    if initializer:
        assert report.verdict.cause == "input.preprocess"
        assert "worker-threads-1" not in [one.id for one in report.remedies]
    else:
        assert report.verdict.cause == "input.oversubscribed"
        assert report.remedies[0].id == "worker-threads-1"
