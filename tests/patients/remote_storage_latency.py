"""Sick: two workers fetch objects one by one from a store 4 ms away. Cure: ten workers."""

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import torch
from ledger import Ledger
from object_server import SIZE
from props import options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Objects(Dataset[tuple[torch.Tensor, int]]):
    """Objects behind a TCP connection; each process opens its own."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.links: dict[int, socket.socket] = {}

    def __len__(self) -> int:
        return 2400

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        link = self.links.get(os.getpid())
        if link is None:
            link = self.links[os.getpid()] = socket.create_connection(("127.0.0.1", self.port))
        link.sendall(struct.pack("!I", index))
        data = bytearray()
        while len(data) < SIZE:
            data += link.recv(SIZE - len(data))
        values = torch.frombuffer(data[:64], dtype=torch.uint8).float().div_(255)
        return values + 0.1 * torch.randn(64), index % 10


def train(book: Ledger, port: int, workers: int) -> None:
    loader = DataLoader(
        Objects(port), batch_size=8, shuffle=True, num_workers=workers, persistent_workers=True
    )
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.003)
            loss.backward()
            optimizer.step()
            book.note(loss)


def main() -> None:
    """Start the store and train on it."""
    given = options(__doc__, steps=450, step_s=0.0185)
    command = [sys.executable, str(Path(__file__).with_name("object_server.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        port = int(server.stdout.readline())
        train(Ledger(given.steps, given.truth), port, workers=(given.workers or 10) if given.cured else 2)
        server.stdin.close()


if __name__ == "__main__":
    main()
