"""Sick: transforms and model take turns in one process, the transforms longer. Cure: cut first."""

from __future__ import annotations

import numpy as np
import torch
from ledger import Ledger
from props import options
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    """Pictures that are shifted, stretched and blurred, differently each time, and cut to their middle."""

    def __init__(self, cut_first: bool) -> None:
        self.pixels = np.random.default_rng(0).integers(0, 256, (512, 3, 128, 128), dtype=np.uint8)
        self.cut_first = cut_first

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        down, right = torch.randint(24, 41, (2,)).tolist()
        rows, columns = slice(down, down + 64), slice(right, right + 64)
        picture = self.pixels[index][:, rows, columns] if self.cut_first else self.pixels[index]
        picture = (picture.astype(np.float32) / 255) ** float(0.8 + 0.4 * torch.rand(()))
        for axis in (1, 2, 1, 2, 1, 2):
            picture = (np.roll(picture, 1, axis) + 2 * picture + np.roll(picture, -1, axis)) / 4
        if not self.cut_first:
            picture = picture[:, rows, columns].copy()
        return torch.from_numpy(picture), index % 10


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=550, step_s=0.0100, threads=None)
    book = Ledger(given.steps, given.truth)
    loader = DataLoader(Pictures(cut_first=given.cured), batch_size=16, shuffle=True)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(7200, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
