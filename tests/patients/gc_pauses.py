"""Sick: full garbage collections walk over a data set of 600,000 records. Cure: freeze it out of sight."""

import gc

import torch
from ledger import Ledger
from props import options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader


def main() -> None:
    given = options(__doc__, steps=700, step_s=0.0080)
    book = Ledger(given.steps, given.truth)
    index = [{"box": [place, place + 1]} for place in range(300_000)]
    batches = [(torch.randn(32, 64), torch.randint(0, 10, (32,))) for _ in range(100)]
    loader = DataLoader(batches, batch_size=None)
    model = torch.nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    newest: list[list[dict[str, int]]] = []
    if given.cured:
        gc.collect()
        gc.freeze()
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.003)
            loss.backward()
            optimizer.step()
            newest = [*newest[-1:], [{"step": [len(index)]} for _ in range(2000)]]
            book.note(loss)


if __name__ == "__main__":
    main()
