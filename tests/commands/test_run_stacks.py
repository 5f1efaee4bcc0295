"""py-spy's windows in real runs: training thread and workers, at work and asleep."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bottleneck_doctor.analyse.hot_lines import hot_functions
from bottleneck_doctor.analyse.lanes import call_paths
from bottleneck_doctor.model.codec import decode_profile
from bottleneck_doctor.sense.pyspy import find_py_spy
from tests.commands.running import bdoc, gaps, script

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.skipif(find_py_spy() is None, reason="py-spy is not installed"),
    pytest.mark.skipif(
        sys.version_info < (3, 11), reason="py-spy cannot tell who sleeps in older interpreters"
    ),
]

TRAINING = """
import time, torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

class Rows(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return burn() if get_worker_info().id else asleep()

def asleep():
    time.sleep(0.03)
    return torch.zeros(4)

def burn():
    end = time.monotonic() + 0.03  # as long as the other sleeps: the loop takes from both by turns
    while time.monotonic() < end:
        sum(range(1000))
    return torch.zeros(4)

def batches(loader):
    yield from loader

if __name__ == "__main__":
    torch.set_num_threads(1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Rows(), batch_size=2, num_workers=2, multiprocessing_context="spawn")
    for batch in batches(loader):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
"""


def test_a_sleeping_worker_is_blocked_and_a_burning_one_is_on_the_cpu(folder: Path) -> None:
    told = bdoc(folder, "--no-profiler", "--max-seconds", "8", script(folder, TRAINING))
    if "may not look" in gaps(told).get("python stacks (py-spy)", ""):
        pytest.skip(gaps(told)["python stacks (py-spy)"])
    profile = decode_profile((folder / "profile.json").read_bytes())
    seen = {one.function: one for one in hot_functions(profile)}
    asleep, burning, waiting = seen["asleep"], seen["burn"], seen["batches"]
    assert (asleep.role, burning.role, waiting.role) == ("worker", "worker", "trainer")
    assert asleep.on_cpu_share is not None
    assert asleep.on_cpu_share <= 0.5
    assert burning.on_cpu_share is not None
    assert burning.on_cpu_share > 0.5
    assert waiting.on_cpu_share is not None
    assert waiting.on_cpu_share <= 0.5, "the training thread waits for batches"
    paths = [path for role in call_paths(profile) for path in role.paths]
    assert [path for path in paths if any("bottleneck_doctor/" in frame for frame in path.frames)] == []
    assert "asleep (worker)" in told.err
    assert "blocked" in told.err
