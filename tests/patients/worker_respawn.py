"""Sick: short epochs start their workers again each time. Cure: persistent workers."""

import torch
from ledger import Ledger
from props import burn, options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Patches(Dataset[tuple[torch.Tensor, int]]):
    """A small dataset: twenty batches an epoch."""

    def __init__(self) -> None:
        self.rows = torch.randn(160, 64)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        burn(0.0002)
        return self.rows[index] + 0.1 * torch.randn(64), index % 10


def open_index(worker: int) -> None:
    """What each worker does first: read its index, 40 ms of CPU."""
    burn(0.04)


def main() -> None:
    given = options(__doc__, steps=1000, step_s=0.008)
    book = Ledger(given.steps, given.truth)
    loader = DataLoader(
        Patches(),
        batch_size=8,
        shuffle=True,
        num_workers=2,
        worker_init_fn=open_index,
        persistent_workers=given.cured,
    )
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
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
