"""Sick: one thread asks a slow service for batch after batch. Cure: six threads ask."""

import queue
import threading
import time
from collections.abc import Iterator

import torch
from ledger import Ledger
from props import options
from torch.nn import functional


class Client:
    """Asks for every so many-th batch, and waits 15 ms for each."""

    def __init__(self, first: int, stride: int) -> None:
        self.number, self.stride = first, stride
        self.ready: queue.Queue[torch.Tensor] = queue.Queue(2)
        threading.Thread(target=self.ask, daemon=True).start()

    def ask(self) -> None:
        while True:
            time.sleep(0.015)
            state = torch.Generator().manual_seed(self.number)
            self.ready.put(torch.randn(96, 64, generator=state))
            self.number += self.stride


def batches(clients: list[Client]) -> Iterator[torch.Tensor]:
    """The same order, however many clients there are."""
    while True:
        for client in clients:
            yield client.ready.get()


def main() -> None:
    given = options(__doc__, steps=400, step_s=0.0155, threads=None)
    book = Ledger(given.steps, given.truth)
    threads = (given.workers or 6) if given.cured else 1
    source = batches([Client(first, threads) for first in range(threads)])
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in book.epochs():
        for x in book.loop(source):
            loss = functional.mse_loss(model(x), x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
