"""Sick: the model, 26 MB, is saved every ten steps. Cure: every five hundred."""

import os

import torch
from ledger import Ledger
from props import options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader

WORDS, WIDTH = 100_000, 64


class Classifier(torch.nn.Module):
    """A big table of word vectors under a small classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.EmbeddingBag(WORDS, WIDTH, sparse=True)
        self.head = torch.nn.Linear(WIDTH, 10)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.words(tokens))


def main() -> None:
    given = options(__doc__, steps=1000, step_s=0.0080)
    book = Ledger(given.steps, given.truth)
    every = 500 if given.cured else 10
    batches = [(torch.randint(0, WORDS, (32, 40)), torch.randint(0, 10, (32,))) for _ in range(250)]
    loader = DataLoader(batches, batch_size=None)
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    given.data.mkdir(parents=True, exist_ok=True)
    checkpoint = given.data / f"checkpoint-{os.getpid()}.pt"
    step = 0
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.002)
            loss.backward()
            optimizer.step()
            step += 1
            if step % every == 0:
                torch.save(model.state_dict(), checkpoint)
            book.note(loss)
    checkpoint.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
