"""Sick: short epochs end with an evaluation longer than the training. Cure: every sixth epoch does."""

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def evaluate(model: torch.nn.Module, loader: DataLoader[tuple[torch.Tensor, ...]]) -> float:
    """The share of right answers."""
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in loader:
            right += int((model(x).argmax(dim=1) == y).sum())
    model.train()
    return right / 12800


def main() -> None:
    given = options(__doc__, steps=600, step_s=0.0135)
    book = Ledger(given.steps, given.truth)
    train = TensorDataset(torch.randn(1920, 64), torch.randint(0, 10, (1920,)))
    valid = TensorDataset(torch.randn(12800, 64), torch.randint(0, 10, (12800,)))
    loader = DataLoader(train, batch_size=32, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=64)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 1024), torch.nn.Linear(1024, 1024), torch.nn.Linear(1024, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    every = 6 if given.cured else 1
    for epoch in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            book.note(loss)
        if epoch % every == 0:
            with book.aside():
                evaluate(model, valid_loader)


if __name__ == "__main__":
    main()
