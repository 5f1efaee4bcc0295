"""Sick: anomaly detection was left on after a hunt for a NaN. Cure: it is off."""

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    given = options(__doc__, steps=500, step_s=0.0140)
    book = Ledger(given.steps, given.truth)
    torch.autograd.set_detect_anomaly(not given.cured)
    data = TensorDataset(torch.randn(6400, 256), torch.randint(0, 10, (6400,)))
    loader = DataLoader(data, batch_size=64, shuffle=True)
    layers = [layer for _ in range(16) for layer in (torch.nn.Linear(256, 256), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(256, 10))
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
