"""Sick: every step logs three lines and forces each to the disk. Cure: every fiftieth step does."""

import logging
import os

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader


class DurableHandler(logging.FileHandler):
    """A log file that survives a power cut."""

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        os.fsync(self.stream.fileno())


def main() -> None:
    given = options(__doc__, steps=2500, step_s=0.0028)
    book = Ledger(given.steps, given.truth)
    given.data.mkdir(parents=True, exist_ok=True)
    log = logging.getLogger("training")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(DurableHandler(given.data / f"log-{os.getpid()}.txt", mode="w"))
    every = 50 if given.cured else 1
    batches = [(torch.randn(128, 64), torch.randint(0, 10, (128,))) for _ in range(500)]
    loader = DataLoader(batches, batch_size=None)
    model = torch.nn.Sequential(torch.nn.Linear(64, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    step = 0
    for epoch in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            if step % every == 0:
                log.info("epoch %d step %d loss %.4f", epoch, step, loss.item())
                log.info("epoch %d step %d gradient %.4f", epoch, step, model[0].weight.grad.norm().item())
                log.info("epoch %d step %d weight %.4f", epoch, step, model[0].weight.norm().item())
            book.note(loss)
    for handler in log.handlers:
        handler.close()
    os.unlink(given.data / f"log-{os.getpid()}.txt")


if __name__ == "__main__":
    main()
