"""Healthy: the accelerator is busy and the loader keeps ahead of it. Nothing to cure."""

import torch
from ledger import Ledger
from props import burn, options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Records(Dataset[torch.Tensor]):
    """Records that cost 0.1 ms of CPU each."""

    def __init__(self) -> None:
        self.rows = torch.randn(3200, 64)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        burn(0.0001)
        return self.rows[index] + 0.1 * torch.randn(64)


def main() -> None:
    given = options(__doc__, steps=160, step_s=0.0815)
    book = Ledger(given.steps, given.truth)
    loader = DataLoader(Records(), batch_size=8, shuffle=True, num_workers=2, persistent_workers=True)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), x[:, :10].argmax(dim=1))
            simulated_accelerator(0.080)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
