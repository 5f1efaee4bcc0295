"""``bdoc run`` of a training whose batches are made by a pool that the script itself started."""

from __future__ import annotations

from pathlib import Path

import pytest

import bottleneck_doctor
from tests.commands.running import bdoc, script

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.alone]

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
