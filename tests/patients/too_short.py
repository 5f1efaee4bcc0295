"""Three steps: too few to say anything."""

import torch
from ledger import Ledger
from props import burn, options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset[tuple[torch.Tensor, int]]):
    """Photos whose decoding costs 1.5 ms of CPU each."""

    def __init__(self) -> None:
        self.rows = torch.randn(1600, 64)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        burn(0.0015)
        return self.rows[index] + 0.1 * torch.randn(64), index % 10


def main() -> None:
    given = options(__doc__, steps=3, step_s=0.021)
    book = Ledger(given.steps, given.truth)
    loader = DataLoader(Photos(), batch_size=8, shuffle=True)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.008)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
