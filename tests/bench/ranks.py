"""``python -m tests.bench.ranks``: two ranks on this machine's cores, and what two workers for each bring.

Predicted from runs without workers, as a report predicts; measured by the training's own clock, in turn. A
replay that gave all cores to each rank would promise twice as much of what computes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import torch
from torch import distributed, nn
from torch.utils.data import DataLoader, Dataset

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.predict import predict
from bottleneck_doctor.model.codec import read_profile
from bottleneck_doctor.model.diagnosis import Change
from tests.lab.options import tell
from tests.lab.run import BDOC, in_turn, ours_first, succeed

KINDS = {"computes": (20_000, 0.0), "sleeps": (0, 0.002), "both": (8_000, 0.001)}  # turns, seconds a sample
BATCH, SET_OUT, WORKERS = 8, 20, 2
PREDICTED = "predicted from a run without workers"
LAUNCH = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", __file__)


def main(argv: Sequence[str] | None = None) -> int:
    """A line for each kind of data set."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.ranks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400)
    given = parser.parse_args(argv)
    ways = (PREDICTED, "0", str(WORKERS))
    for kind in KINDS:
        found = in_turn(given.rounds, ways, lambda way, kind=kind: _found(kind, way, given.steps))
        likely, alone, helped = (median(each) for each in found.values())
        told = found[PREDICTED]
        print(
            f"{kind}: predicted x{likely:.2f} ({min(told):.2f} to {max(told):.2f}), measured"
            f" x{alone / helped:.2f} ({alone * 1e3:.1f} to {helped * 1e3:.1f} ms a step),"
            f" off by {abs(likely * helped / alone - 1):.0%}",
            flush=True,
        )
    return 0


def _found(kind: str, way: str, steps: int) -> float:
    """A speedup as predicted, or seconds a step with so many workers."""
    tell(f"{kind}: {way}")
    if way != PREDICTED:
        said = succeed([sys.executable, *LAUNCH, kind, way, str(steps)], PYTHONPATH=ours_first())
        return float(said.split()[-1])
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "profile.json"
        training = [*LAUNCH, kind, "0", str(steps)]
        succeed([*BDOC, "run", "--quiet", "-o", str(profile), *training], PYTHONPATH=ours_first())
        return predict(diagnose(read_profile(str(profile))), Change(workers=WORKERS)).likely or 1.0


class Samples(Dataset[tuple[torch.Tensor, int]]):
    """Each takes so much of a core, and so much sleep."""

    def __init__(self, kind: str, count: int) -> None:
        self.turns, self.seconds = KINDS[kind]
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        total = 0
        for turn in range(self.turns):
            total += turn * turn
        if self.seconds:
            time.sleep(self.seconds)
        return torch.full((256,), total % 7.0), number % 10


def train(kind: str, workers: int, steps: int) -> None:
    """A rank of it; the first prints seconds per step."""
    distributed.init_process_group("gloo")
    layers = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 10))
    model = nn.parallel.DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began = 0.0
    for step, (x, y) in enumerate(DataLoader(Samples(kind, BATCH * steps), BATCH, num_workers=workers)):
        if step == SET_OUT:
            began = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    if distributed.get_rank() == 0:
        print((time.perf_counter() - began) / (steps - SET_OUT))
    del (
        model,
        optimizer,
    )  # or the group now and then ends with SIGABRT: "terminate called without an active exception"
    distributed.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in KINDS:
        train(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        raise SystemExit(main())
