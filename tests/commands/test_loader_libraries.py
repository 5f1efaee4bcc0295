"""Real runs of trainings whose batches come from other libraries, or from a pool of the script's own."""

from __future__ import annotations

from pathlib import Path

import pytest

import bottleneck_doctor
from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.codec import read_profile
from tests.commands.running import bdoc, script

pytestmark = [pytest.mark.long, pytest.mark.slow]

PRELUDE = """
import os, sys
import numpy
import torch
from torch.utils.data import DataLoader, Dataset

STEPS = 120
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

loader = StatefulDataLoader(Rows(), batch_size=8, num_workers=2)
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
            shards.write({"__key__": f"{number:06}", "x.npy": row})
    data = webdataset.WebDataset("rows-{0..1}.tar", shardshuffle=False).shuffle(50).decode()
    data = data.to_tuple("x.npy").map_tuple(features).batched(8)
    train(webdataset.WebLoader(data, batch_size=None, num_workers=2))
"""
LIBRARIES = {
    "torchdata's StatefulDataLoader": STATEFUL,
    "torchdata's nodes": NODES,
    "webdataset's WebLoader": WEBDATASET,
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_what_makes_the_batches_is_found(name: str, tmp_path: Path) -> None:
    pytest.importorskip(name.partition("'")[0])
    told = bdoc(tmp_path, "-q", script(tmp_path, PRELUDE + LIBRARIES[name]))
    assert told.status == 0, told.err
    report = write_up(read_profile(tmp_path / "profile.json"))
    assert report.verdict.cause in ("input.preprocess", "input.oversubscribed"), report.verdict
    # Threads that make batches beside the loop hide a part that depends on the machine.
    assert report.metrics["data_wait_fraction"].value > 0.1


# Actors of a policy: torch computes in the pool with as many threads as in the training, which is not told
# otherwise.
TRAINING = """
import multiprocessing, time, torch

def play(seed):
    states, policy = torch.randn(64, 256), torch.randn(256, 256) / 16
    for _ in range(40):
        states = torch.tanh(states @ policy)
    return states.numpy()

def main():
    pool = multiprocessing.get_context("fork").Pool(2)
    model = torch.nn.Linear(256, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    end = time.monotonic() + 12
    while time.monotonic() < end:
        batch = torch.cat([torch.from_numpy(one) for one in pool.map(play, range(2), chunksize=1)])
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    pool.close()
    pool.join()

main()
"""


@pytest.mark.alone  # with cores taken by others, they would be to blame
def test_processes_that_compute_with_several_threads_each_are_told_to_use_one(tmp_path: Path) -> None:
    told = bdoc(tmp_path, "-o", "told.json", script(tmp_path, TRAINING), fresh=True)
    assert told.status == 0, told.err
    report = bottleneck_doctor.load(str(tmp_path / "told.json"))
    assert report.verdict.cause == "input.oversubscribed"
    assert report.remedies[0].id == "worker-threads-1"
