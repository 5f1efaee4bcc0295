"""Sick: two threads share half a core's worth of CPU time and are stopped in turns. Cure: one thread."""

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

WIDTH = 512


def main() -> None:
    given = options(__doc__, steps=120, step_s=0.05, threads=None)
    torch.set_num_threads(1 if given.cured else 2)
    book = Ledger(given.steps, given.truth)
    table = TensorDataset(torch.randn(2048, WIDTH))
    loader = DataLoader(table, batch_size=256, shuffle=True)
    layers = [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()] * 3
    model = torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for _ in book.epochs():
        for (x,) in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.mse_loss(model(x).squeeze(1), x.mean(dim=1))
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
