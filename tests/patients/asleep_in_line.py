"""Decoy: samples stand in one line of the data set all the time, asleep. Cure: more of them wait at once."""

import time

import torch
from ledger import Ledger
from props import options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Sensors(Dataset[tuple[torch.Tensor, int]]):
    """Readings that a device hands out after 3 ms each; nothing is computed."""

    def __init__(self) -> None:
        self.rows = torch.randn(1600, 64)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        reading = self.decoded(index)
        return reading + 0.1 * torch.randn(64), index % 10

    def decoded(self, index: int) -> torch.Tensor:
        """Looks like work in a picture of stacks."""
        time.sleep(0.003)
        return self.rows[index]


def main() -> None:
    given = options(__doc__, steps=500, step_s=0.0125)
    book = Ledger(given.steps, given.truth)
    workers = 8 if given.cured else 2
    loader = DataLoader(Sensors(), batch_size=8, shuffle=True, num_workers=workers, persistent_workers=True)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.003)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
