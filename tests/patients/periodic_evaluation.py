"""Sick: at every fortieth step the model goes over held-out rows, without a loader. Cure: five times less."""

import torch
from ledger import Ledger
from props import options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader


def main() -> None:
    given = options(__doc__, steps=800, step_s=0.0080)
    book = Ledger(given.steps, given.truth)
    held = torch.randn(100_000, 64)
    batches = [(torch.randn(64, 64), torch.randint(0, 10, (64,))) for _ in range(100)]
    loader = DataLoader(batches, batch_size=None)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Linear(256, 128), torch.nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    every, step = 200 if given.cured else 40, 0
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.003)
            loss.backward()
            optimizer.step()
            step += 1
            if step % every == 0:
                with torch.no_grad():
                    model(held).argmax(dim=1).float().mean()
            book.note(loss)


if __name__ == "__main__":
    main()
