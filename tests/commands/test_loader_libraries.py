"""Real runs of trainings whose batches come from other libraries, or from a pool of the script's own."""

from pathlib import Path

import pytest

import bottleneck_doctor
from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.codec import read_profile
from tests.commands.running import bdoc, script

pytestmark = [pytest.mark.long, pytest.mark.slow]

TRAINS = """
import numpy
import torch
from torchdata.nodes import Batcher, IterableWrapper, Loader, ParallelMapper, Prefetcher
from torchdata.stateful_dataloader import StatefulDataLoader

STEPS = 120
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
rows = list(numpy.random.default_rng(0).random((8 * STEPS, 64), dtype="float32"))

def features(row):
    total = 0
    for place in range(60_000):  # the slow line
        total += place * place
    return torch.as_tensor(row) + total % 2

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return len(rows)

    def __getitem__(self, index):
        return features(rows[index])

def nodes():
    node = ParallelMapper(IterableWrapper(rows), features, num_workers=2, method="thread")
    return map(torch.stack, Loader(Prefetcher(Batcher(node, 8), 4)))

def stateful():
    loader = StatefulDataLoader(Rows(), batch_size=8, num_workers=2)
    for batch in loader:
        loader.state_dict()
        yield batch

if __name__ == "__main__":
    for batch in {library}():
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("library", ["nodes", "stateful"])
def test_what_makes_the_batches_is_found(library: str, tmp_path: Path) -> None:
    pytest.importorskip("torchdata")
    told = bdoc(tmp_path, "-q", script(tmp_path, TRAINS.replace("{library}", library)))
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
