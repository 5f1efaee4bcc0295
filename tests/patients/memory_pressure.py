"""Sick: ballast leaves no memory for a table that is looked up; its pages come and go. Cure: no ballast."""

from __future__ import annotations

import mmap
import os

import torch
from ledger import Ledger
from props import options, random_file, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

ROW, ROWS, WIDTH, LOOKUPS = 4096, 76_800, 64, 8
BALLAST = 400 << 20


class Rows(Dataset[torch.Tensor]):
    """Rows in memory."""

    def __init__(self) -> None:
        self.rows = torch.rand(4096, WIDTH)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.rows[index] + 0.1 * torch.randn(WIDTH)


def look_up(table: mmap.mmap, generator: torch.Generator) -> float:
    """A sum over rows of a table on disk, each on a page of its own."""
    places = torch.randint(ROWS, (LOOKUPS,), generator=generator).tolist()
    return sum(table[place * ROW] for place in places) / (255.0 * LOOKUPS)


def main() -> None:
    given = options(__doc__, steps=120, step_s=0.045)
    book = Ledger(given.steps, given.truth)
    descriptor = os.open(random_file(given.data / "table.bin", ROW * ROWS), os.O_RDONLY)
    os.posix_fadvise(
        descriptor, 0, 0, os.POSIX_FADV_DONTNEED
    )  # what others cached is not charged to this job
    table = mmap.mmap(descriptor, ROW * ROWS, prot=mmap.PROT_READ)
    ballast = torch.ones(0 if given.cured else BALLAST, dtype=torch.uint8)
    for place in range(ROWS):  # every page was in memory once
        table[place * ROW]
    loader = DataLoader(Rows(), batch_size=16, shuffle=True)
    model = torch.nn.Linear(WIDTH, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(0)
    for _ in book.epochs():
        for x in book.loop(loader):
            optimizer.zero_grad()
            bias = look_up(table, generator)
            loss = functional.mse_loss(model(x).squeeze(1) + bias, x.mean(dim=1))
            simulated_accelerator(0.003)
            loss.backward()
            optimizer.step()
            book.note(loss)
    del ballast


if __name__ == "__main__":
    main()
