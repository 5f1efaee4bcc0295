"""Sick: short epochs end with a checkpoint that takes longer than they. Cure: every twentieth does."""

import os

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    given = options(__doc__, steps=500, step_s=0.0130, threads=None)
    book = Ledger(given.steps, given.truth)
    every = 20 if given.cured else 1
    given.data.mkdir(parents=True, exist_ok=True)
    path = given.data / f"epoch-{os.getpid()}.pt"
    data = TensorDataset(torch.randint(0, 80_000, (320, 30)), torch.randint(0, 10, (320,)))
    loader = DataLoader(data, batch_size=32, shuffle=True)
    model = torch.nn.Sequential(torch.nn.EmbeddingBag(80_000, 128, sparse=True), torch.nn.Linear(128, 10))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
    for epoch in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            book.note(loss)
        if epoch % every == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
