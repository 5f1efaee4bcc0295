"""Sick: each of two workers multiplies matrices on all cores. Cure: one thread in each worker."""

import os
import sys

if "--cured" in sys.argv:  # the library reads it when it is loaded, and torch loads it
    os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import torch
from ledger import Ledger
from props import options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

SIZE, TURNS = 384, 1


class Rotations(Dataset[tuple[torch.Tensor, int]]):
    """Descriptors, turned again and again by NumPy, and not the same twice."""

    def __init__(self) -> None:
        draw = np.random.default_rng(0)
        self.cost = np.linalg.qr(draw.standard_normal((SIZE, SIZE)))[0]

    def __len__(self) -> int:
        return 3200

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        values = torch.randn(SIZE, SIZE, dtype=torch.float64).numpy()
        for _ in range(TURNS):
            values = values @ self.cost
        return torch.from_numpy(values[:4, :16].astype(np.float32)), index % 10


def main() -> None:
    given = options(__doc__, steps=280, step_s=0.024)
    book = Ledger(given.steps, given.truth)
    loader = DataLoader(Rotations(), batch_size=4, shuffle=True, num_workers=2, persistent_workers=True)
    model = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.002)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
