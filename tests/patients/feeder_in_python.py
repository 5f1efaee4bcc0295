"""Sick: a thread that computes in Python fills the queue in time, and holds the interpreter's lock.

Cure: it has nothing to do.
"""

from __future__ import annotations

import queue
import threading

import torch
from ledger import Ledger
from props import options
from torch import nn
from torch.nn import functional

LENGTH, BATCH, VOCABULARY, WIDTH = 32, 32, 64, 64


class Feeder(threading.Thread):
    """Keeps up to four batches ready."""

    def __init__(self, rounds: int) -> None:
        super().__init__(daemon=True)
        self.rounds = rounds
        self.ready: queue.Queue[torch.Tensor] = queue.Queue(4)

    def run(self) -> None:
        number = 0
        while True:
            rows = [self.row(number + place) for place in range(BATCH)]
            self.ready.put(torch.tensor(rows))
            number += BATCH

    def row(self, number: int) -> list[int]:
        state = number
        for value in range(self.rounds):
            state = (state * 31 + value) & 0xFFFF
        return [(number + place) % VOCABULARY for place in range(LENGTH + 1)]


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=260, step_s=0.030, threads=None)
    book = Ledger(given.steps, given.truth)
    feeder = Feeder(1 if given.cured else 6000)
    feeder.start()
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
    model = nn.Sequential(
        nn.Embedding(VOCABULARY, WIDTH),
        nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
        nn.Linear(WIDTH, VOCABULARY),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in book.epochs():
        for _ in range(given.steps):
            with book.waiting():
                letters = feeder.ready.get()
            optimizer.zero_grad()
            scores = model(letters[:, :-1])
            loss = functional.cross_entropy(scores.flatten(0, 1), letters[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
