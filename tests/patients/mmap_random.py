"""Sick: rows of a cold memory map, faulted in one by one. Cure: the kernel is told a batch ahead."""

import mmap
import os
from pathlib import Path

import torch
from ledger import Ledger
from props import options, random_file, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

ROW, ROWS, WIDTH, BATCH = 16_384, 16_384, 256, 40


class Mapped(Dataset[torch.Tensor]):
    """Rows of a file that is larger than memory: what was used is dropped again."""

    def __init__(self, path: Path, hint: bool) -> None:
        self.hint = hint
        self.descriptor = os.open(path, os.O_RDONLY)
        self.map = mmap.mmap(self.descriptor, ROW * ROWS, prot=mmap.PROT_READ)

    def __len__(self) -> int:
        return ROWS

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        if self.hint:
            for index in indices:
                self.map.madvise(mmap.MADV_WILLNEED, index * ROW, ROW)
        rows = [self.row(index) for index in indices]
        self.map.madvise(mmap.MADV_DONTNEED)
        os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return rows

    def row(self, index: int) -> torch.Tensor:
        """Every page of the row is touched."""
        data = bytearray(self.map[index * ROW : (index + 1) * ROW])
        return torch.frombuffer(data, dtype=torch.uint8)[:: ROW // WIDTH].float().div_(255)


def main() -> None:
    given = options(__doc__, steps=50, step_s=0.12)
    book = Ledger(given.steps, given.truth)
    rows = Mapped(random_file(given.data / "mapped.bin", ROW * ROWS), given.cured)
    loader = DataLoader(rows, batch_size=BATCH, shuffle=True, num_workers=1, persistent_workers=True)
    model = torch.nn.Linear(WIDTH, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in book.epochs():
        for x in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.mse_loss(model(x).squeeze(1), x.mean(dim=1))
            simulated_accelerator(0.002)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
