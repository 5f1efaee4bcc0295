"""Trains on several ranks, each on a core of its own; the last one is late for a given reason."""

import os
import time

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


def told(*names: str) -> int:
    """What the launcher says under one of these names."""
    return int(next(os.environ[name] for name in names if name in os.environ))


class Notes(Dataset[tuple[torch.Tensor, int]]):
    """Vectors; where data is late each takes 2 ms to come."""

    def __init__(self, late: str) -> None:
        self.late = late

    def __len__(self) -> int:
        return 1600

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self.late == "data":
            time.sleep(0.002)
        return torch.randn(64), index % 10


def train(rank: int, ranks: int, late: str) -> None:
    """Train one epoch in the process group that is there; the last rank is ``late``: data, cores or work."""
    late = late if rank == ranks - 1 else ""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.set_num_threads(1)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    square = torch.randn(400, 400)
    for x, y in DataLoader(Notes(late), batch_size=8):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        for _ in range(24 if late == "work" else 8):
            square @ square
        loss.backward()
        optimizer.step()


def main() -> None:
    """As a task of a launcher: with the group that it asks for."""
    rank, ranks = told("RANK", "SLURM_PROCID"), told("WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
    where = f"tcp://{os.environ['MEETING']}" if "MEETING" in os.environ else "env://"
    distributed.init_process_group("gloo", init_method=where, rank=rank, world_size=ranks)
    train(rank, ranks, os.environ["LATE"])
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
