"""Sick: a generator fetches eight objects a batch, one GET after the other. Cure: one GET a batch."""

import http.client
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from http_store import SIZE
from ledger import Ledger
from props import options
from torch.nn import functional

OBJECTS, BATCH = 800, 8


def fetched(link: http.client.HTTPConnection, numbers: list[int]) -> bytes:
    """The bytes of some objects."""
    link.request("GET", "/" + ",".join(map(str, numbers)))
    return link.getresponse().read()


def batches(port: int, together: bool) -> Iterator[torch.Tensor]:
    """Batches without end, in an order of their own."""
    link = http.client.HTTPConnection("127.0.0.1", port)
    draw = random.Random(0)
    while True:
        numbers = draw.sample(range(OBJECTS), BATCH)
        parts = [numbers] if together else [[number] for number in numbers]
        data = bytearray().join(fetched(link, part) for part in parts)
        yield torch.frombuffer(data, dtype=torch.uint8).view(BATCH, SIZE)[:, :256].float().div_(255)


def train(book: Ledger, source: Iterator[torch.Tensor]) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in book.epochs():
        for x in book.loop(source):
            optimizer.zero_grad()
            loss = functional.mse_loss(model(x), x)
            loss.backward()
            optimizer.step()
            book.note(loss)


def main() -> None:
    """Start the server and train on it."""
    given = options(__doc__, steps=160, step_s=0.042, threads=None)
    command = [sys.executable, str(Path(__file__).with_name("http_store.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        port = int(server.stdout.readline())
        train(Ledger(given.steps, given.truth), batches(port, together=given.cured))
        server.stdin.close()


if __name__ == "__main__":
    main()
