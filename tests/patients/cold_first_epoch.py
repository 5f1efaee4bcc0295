"""Sick, but only at first: the first epoch reads from the disk, later ones from memory. Cure: read before."""

import mmap
import os
from pathlib import Path

import torch
from ledger import Ledger
from props import options, random_file, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

BLOCK, BLOCKS, PER_SAMPLE, SAMPLES = 1 << 20, 256, 2, 1600


class Kept(Dataset[tuple[torch.Tensor, int]]):
    """Records that stay in memory once they were read."""

    def __init__(self, path: Path, cured: bool) -> None:
        self.file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        self.page = mmap.mmap(-1, BLOCK, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.kept: dict[int, torch.Tensor] = {}
        if cured:
            self.kept = {index: self.read(index) for index in range(SAMPLES)}

    def __len__(self) -> int:
        return SAMPLES

    def read(self, index: int) -> torch.Tensor:
        """Reads past the page cache: cold in every run."""
        parts = bytearray()
        for place in range(PER_SAMPLE):
            os.preadv(self.file, [self.page], ((index * PER_SAMPLE + place) * 7919 % BLOCKS) * BLOCK)
            parts += self.page[:8]
        return torch.frombuffer(parts, dtype=torch.uint8).float().div_(255)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index not in self.kept:
            self.kept[index] = self.read(index)
        return self.kept[index], index % 10


def main() -> None:
    given = options(__doc__, steps=800, step_s=0.0080)
    book = Ledger(given.steps, given.truth)
    data = Kept(random_file(given.data / "records.bin", BLOCK * BLOCKS), given.cured)
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = torch.nn.Linear(8 * PER_SAMPLE, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.005)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
