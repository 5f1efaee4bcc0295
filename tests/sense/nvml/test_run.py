"""A whole `bdoc run` of a small training on the CPU, on a machine whose GPU somebody else keeps busy."""

from pathlib import Path

import pytest

from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.codec import read_profile
from tests.commands.running import bdoc, script
from tests.sense.nvml.conftest import ONE, Stage

pytestmark = [pytest.mark.slow, pytest.mark.long]

TRAINING = """
import time
import torch
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 2000

    def __getitem__(self, index):
        end = time.perf_counter() + 0.002
        while time.perf_counter() < end:
            pass
        return torch.full((8,), float(index % 7))

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for rows in DataLoader(Rows(), batch_size=4):
    optimizer.zero_grad()
    model(rows).square().mean().backward()
    optimizer.step()
print("trained")
"""
BUSY = (f"{ONE} busy=99 used=70e9 sm_clock=600 reasons=64", "process pid=1 memory=60e9 sm=95")


def test_somebody_elses_gpu_is_not_the_trainings(tmp_path: Path, stage: Stage) -> None:
    environment = {name: value for name, value in stage(*BUSY).items() if name != "PYTHONPATH"}
    options = ["-q", "--no-profiler", "--no-py-spy"]
    done = bdoc(tmp_path, *options, script(tmp_path, TRAINING), env=environment, fresh=True)
    assert (done.status, done.out) == (0, b"trained\n"), done.err
    profile = read_profile(tmp_path / "profile.json")
    busy = [one for one in profile.series.values["gpu0_busy_share"] if one is not None]
    assert set(busy) == {0.99}
    assert profile.machine.gpus == ["H100"]
    report = write_up(profile)
    assert (report.verdict.bound, report.verdict.gain["gpu"]) == ("cpu", None)
    assert report.metrics["gpu_busy_fraction"].value is None
    about = {one.id for one in report.findings} | {one.finding for one in report.abstentions}
    assert not [name for name in about if name.startswith("gpu-")]
    assert [gap for gap in done.profile["gaps"] if "gpu" in gap["what"]] == []
