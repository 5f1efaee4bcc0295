"""Sick: one worker waits for 512 small random reads a batch, one after the other. Cure: four workers."""

import mmap
import os
from pathlib import Path

import torch
from ledger import Ledger
from props import options, random_file, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

BLOCK, BLOCKS, PER_SAMPLE = 4096, 65_536, 64


class Records(Dataset[tuple[torch.Tensor, int]]):
    """Records drawn from all over a file of 256 MB, read past the page cache: cold in every run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor: int | None = None
        self.page = mmap.mmap(-1, BLOCK, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def __len__(self) -> int:
        return 2400

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self.descriptor is None:
            self.descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECT)
        parts = bytearray()
        for place in torch.randint(BLOCKS, (PER_SAMPLE,)).tolist():
            os.preadv(self.descriptor, [self.page], place * BLOCK)
            parts += self.page[:4]
        return torch.frombuffer(parts, dtype=torch.uint8).float().div_(255), index % 10


def main() -> None:
    given = options(__doc__, steps=450, step_s=0.0180)
    book = Ledger(given.steps, given.truth)
    records = Records(random_file(given.data / "records.bin", BLOCK * BLOCKS))
    workers = (given.workers or 4) if given.cured else 1
    loader = DataLoader(records, batch_size=8, shuffle=True, num_workers=workers, persistent_workers=True)
    model = torch.nn.Linear(4 * PER_SAMPLE, 10)
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
