"""Sick: a thread unpacks batches for a queue that is always empty. Cure: they lie unpacked."""

import queue
import threading
import zlib

import numpy as np
import torch
from ledger import Ledger
from props import options
from torch.nn import functional

BATCH, WIDTH, PACKS = 2048, 256, 24


def pack(number: int) -> bytes:
    """Half a megabyte of letters, of which most are alike."""
    state = np.random.default_rng(number)
    return zlib.compress(state.geometric(0.2, BATCH * WIDTH).astype(np.uint8).tobytes(), 6)


class Feeder(threading.Thread):
    """Keeps up to four batches ready."""

    def __init__(self, packs: list[bytes], packed: bool) -> None:
        super().__init__(daemon=True)
        self.packs, self.packed = packs, packed
        self.ready: queue.Queue[torch.Tensor] = queue.Queue(4)

    def run(self) -> None:
        number = 0
        while True:
            raw = self.packs[number % len(self.packs)]
            letters = np.frombuffer(zlib.decompress(raw) if self.packed else raw, dtype=np.uint8)
            self.ready.put(torch.from_numpy(letters.reshape(BATCH, WIDTH).astype(np.float32)))
            number += 1


def main() -> None:
    given = options(__doc__, steps=1800, step_s=0.0030, threads=None)
    book = Ledger(given.steps, given.truth)
    packs = [pack(number) for number in range(PACKS)]
    feeder = Feeder([zlib.decompress(one) for one in packs] if given.cured else packs, not given.cured)
    feeder.start()
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 24), torch.nn.ReLU(), torch.nn.Linear(24, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for _ in book.epochs():
        for _ in range(given.steps):
            with book.waiting():
                x = feeder.ready.get()
            optimizer.zero_grad()
            loss = functional.mse_loss(model(x), x.mean(dim=1, keepdim=True))
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
