"""Sick: answers take very different times, and batches come in order. Cure: a deeper buffer."""

from __future__ import annotations

import math
import random
import time

import torch
from ledger import Ledger
from props import options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

BATCHES, MEAN_S, SPREAD = 100, 0.020, 1.1


class Answers(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Whole batches; each is asked for somewhere and takes its own time, 20 ms on average."""

    def __init__(self) -> None:
        self.rows = torch.randn(BATCHES, 32, 64)
        draw = random.Random(0)
        self.seconds = [MEAN_S * math.exp(draw.gauss(-SPREAD * SPREAD / 2, SPREAD)) for _ in range(BATCHES)]

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(self.seconds[index])
        return self.rows[index], torch.arange(32) % 10


def main() -> None:
    given = options(__doc__, steps=1000, step_s=0.0105)
    book = Ledger(given.steps, given.truth)
    loader = DataLoader(
        Answers(), batch_size=None, shuffle=True, num_workers=4, persistent_workers=True,
        prefetch_factor=8 if given.cured else 2,
    )  # fmt: skip
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.006)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
