"""Healthy loader, heavy optimizer: LBFGS calls the model many times for one batch."""

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    given = options(__doc__, steps=360, step_s=0.022)
    book = Ledger(given.steps, given.truth)
    data = TensorDataset(torch.randn(4000, 64), torch.randint(0, 10, (4000,)))
    loader = DataLoader(data, batch_size=100, shuffle=True)
    model = torch.nn.Sequential(torch.nn.Linear(64, 1024), torch.nn.Tanh(), torch.nn.Linear(1024, 10))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.05, max_iter=10, history_size=4)
    for _ in book.epochs():
        for x, y in book.loop(loader):

            def closure(x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
                optimizer.zero_grad()
                loss = functional.cross_entropy(model(x), y)
                loss.backward()
                return loss

            book.note(optimizer.step(closure))


if __name__ == "__main__":
    main()
