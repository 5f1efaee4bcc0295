"""Well, but for one step in the middle that sleeps for three seconds: one stall is no phase and no rhythm."""

import time

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader


def main() -> None:
    given = options(__doc__, steps=600, step_s=0.0080, threads=None)
    book = Ledger(given.steps, given.truth)
    batches = [(torch.randn(64, 64), torch.randint(0, 10, (64,))) for _ in range(100)]
    loader = DataLoader(batches, batch_size=None)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 1024), torch.nn.Linear(1024, 1024), torch.nn.Linear(1024, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = 0
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            if step == given.steps // 2:
                time.sleep(0.0 if given.cured else 3.0)
            book.note(loss)


if __name__ == "__main__":
    main()
