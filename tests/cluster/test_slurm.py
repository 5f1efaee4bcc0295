"""Slurm as its users use it: the batch script of docs/clusters.md, cancelled, signalled, and queued again."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bottleneck_doctor.model.codec import read_profile
from tests.cluster.__main__ import free_port
from tests.cluster.nodes import environ
from tests.cluster.slurm import slurm

BATCH = Path(__file__).with_name("job.sbatch")
PATIENCE_S = 90.0

# Trains on two ranks until two seconds after SIGUSR1; a second attempt ends by itself.
TRAINING = """\
import os, signal, time
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

rank, heard = int(os.environ["SLURM_PROCID"]), []
signal.signal(signal.SIGUSR1, lambda *_: heard.append(time.monotonic()))
distributed.init_process_group("gloo", f"tcp://{os.environ['MEETING']}", rank=rank, world_size=2)
torch.set_num_threads(1)
model = DistributedDataParallel(nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
epochs = 3 if "SLURM_RESTART_COUNT" in os.environ else 9999
for epoch in range(epochs):
    for x in DataLoader(torch.randn(800, 64), batch_size=8):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    open(f"epoch.{rank}", "w").write(str(epoch))
    late = torch.tensor([float(bool(heard) and time.monotonic() > heard[0] + 2)])
    distributed.all_reduce(late)
    if late:
        break
open(f"heard.{rank}", "w").write(str(len(heard)))
distributed.destroy_process_group()
"""


@pytest.fixture(scope="module")
def conf() -> Iterator[str]:
    with slurm(("node0", "node1")) as made:
        if not made.startswith("/"):
            pytest.skip(made)
        yield made


class Job:
    """One that was submitted in a folder, with this checkout's ``bdoc`` on its path."""

    def __init__(self, conf: str, folder: Path) -> None:
        (folder / "train.py").write_text(TRAINING)
        bdoc = folder / "bin" / "bdoc"
        bdoc.parent.mkdir()
        bdoc.write_text(f'#!/bin/sh\nexec {sys.executable} -m bottleneck_doctor "$@"\n')
        bdoc.chmod(0o755)
        variables = environ(SLURM_CONF=conf, MEETING=f"127.0.0.1:{free_port()}")
        self.environ = {**variables, "PATH": f"{bdoc.parent}:{variables['PATH']}"}
        self.folder = folder
        self.number = self.do("sbatch", "--parsable", str(BATCH))
        self.until(lambda: self.epoch() > 1)

    def do(self, *line: str) -> str:
        done = subprocess.run(line, cwd=self.folder, env=self.environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def epoch(self) -> int:
        file = self.folder / "epoch.1"
        return int(file.read_text() or 0) if file.exists() else 0

    def until(self, true: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < end, self.said()
            time.sleep(0.2)

    def ended(self) -> bool:
        return not self.do("squeue", "--noheader", "--jobs", self.number)

    def said(self) -> str:
        return "".join(file.read_text() for file in self.folder.glob("slurm-*.out"))

    def ranks(self, attempt: int) -> dict[str, int | None]:
        """The profiles of an attempt, by their names: of which signal the training died in them."""
        files = sorted((self.folder / "profiles" / f"{self.number}.{attempt}").glob("profile.*.json"))
        return {file.name: read_profile(str(file)).run.signal for file in files}


@pytest.fixture
def job(conf: str, tmp_path: Path) -> Job:
    return Job(conf, tmp_path)


def test_each_task_hears_a_signal_once_and_the_batch_script_merges(job: Job) -> None:
    job.do("scancel", "--signal", "USR1", job.number)
    job.until(job.ended)
    assert [(job.folder / f"heard.{rank}").read_text() for rank in (0, 1)] == ["1", "1"], job.said()
    assert "2 ranks on 1 host\n" in job.said()
    assert len(job.ranks(0)) == 2


def test_a_cancelled_job_leaves_what_was_seen(job: Job) -> None:
    job.do("scancel", job.number)
    job.until(job.ended)
    assert list(job.ranks(0).values()) == [signal.SIGTERM] * 2, job.said()


def test_a_job_that_is_queued_again_keeps_the_profiles_of_both_attempts(job: Job) -> None:
    job.do("scontrol", "requeue", job.number)
    job.until(lambda: "2 ranks on" in job.said())
    job.until(job.ended)
    assert len(job.ranks(0)) == 2, job.said()
    assert set(job.ranks(1).values()) == {None}
