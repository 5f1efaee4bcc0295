"""Sick: the loader's reads wait behind strangers who keep the disk busy. Nothing of its own is wrong."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import torch
from ledger import Ledger
from props import options, random_file, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

BLOCK, BLOCKS, READS = 65_536, 1024, 8


class Blocks(Dataset[torch.Tensor]):
    """Blocks read past the page cache, as from a file that is larger than memory."""

    def __init__(self, path: Path) -> None:
        self.path, self.descriptor = path, -1
        self.block = mmap.mmap(-1, BLOCK, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def __len__(self) -> int:
        return BLOCKS

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.descriptor < 0:
            self.descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECT)
        os.preadv(self.descriptor, [self.block], index * BLOCK)
        start = int(torch.randint(BLOCK - 256, ()))
        return (
            torch.frombuffer(bytearray(self.block[start : start + 256]), dtype=torch.uint8).float().div_(255)
        )


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=300, step_s=0.021)
    book = Ledger(given.steps, given.truth)
    blocks = Blocks(random_file(given.data / "blocks.bin", BLOCK * BLOCKS))
    loader = DataLoader(blocks, batch_size=READS, shuffle=True, num_workers=1, persistent_workers=True)
    model = torch.nn.Linear(256, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in book.epochs():
        for x in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.mse_loss(model(x).squeeze(1), x.mean(dim=1))
            simulated_accelerator(0.003)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
