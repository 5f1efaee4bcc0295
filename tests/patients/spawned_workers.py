"""Sick: two workers are spawned for each short epoch, and import torch first. Cure: persistent workers."""

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset[tuple[torch.Tensor, int]]):
    """A small dataset: sixteen batches an epoch."""

    def __init__(self) -> None:
        self.rows = torch.randn(512, 64)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.rows[index] + 0.1 * torch.randn(64), index % 10


def main() -> None:
    given = options(__doc__, steps=64, step_s=0.150, threads=None)
    book = Ledger(given.steps, given.truth)
    loader = DataLoader(
        Rows(),
        batch_size=32,
        shuffle=True,
        num_workers=2,
        multiprocessing_context="spawn",
        persistent_workers=given.cured,
    )
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
