"""Sick: four workers preempt a CPU model that computes with two threads. Cure: one worker, one thread."""

import torch
from ledger import Ledger
from props import burn, options
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

WIDTH = 192


class Records(Dataset[tuple[torch.Tensor, int]]):
    """Records whose parsing costs 0.15 ms of CPU each."""

    def __init__(self) -> None:
        self.rows = torch.randn(6400, WIDTH)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        burn(0.00015)
        return self.rows[index] + 0.1 * torch.randn(WIDTH), index % 10


def main() -> None:
    """Train a deep, narrow network: many short parallel regions, each as slow as its slowest thread."""
    given = options(__doc__, steps=500, step_s=0.016, threads=None)
    book = Ledger(given.steps, given.truth)
    torch.set_num_threads(1 if given.cured else 2)
    workers = 1 if given.cured else 4
    loader = DataLoader(Records(), batch_size=32, shuffle=True, num_workers=workers, persistent_workers=True)
    layers = [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()) for _ in range(48)]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
