"""Sick: ``get_batch()`` cuts blocks from a memory map of a cold file. Cure: an array in memory."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from ledger import Ledger
from props import options, random_file
from torch import nn
from torch.nn import functional

SIZE, BLOCK, BATCH = 256 << 20, 512, 16


class Tokens:
    """A corpus larger than memory: the pages of the last batch are dropped again."""

    def __init__(self, path: Path, in_memory: bool) -> None:
        self.path = path
        self.held = np.fromfile(path, dtype=np.uint8) if in_memory else None
        self.descriptor = os.open(path, os.O_RDONLY)

    def get_batch(self) -> torch.Tensor:
        """Random stretches of the corpus."""
        # Mapped anew for each batch: an old map would keep every page that it ever touched.
        data = np.memmap(self.path, dtype=np.uint8, mode="r") if self.held is None else self.held
        starts = torch.randint(SIZE - BLOCK, (BATCH,)).tolist()
        batch = torch.stack(
            [torch.from_numpy(data[start : start + BLOCK].astype(np.int64)) for start in starts]
        )
        del data
        if self.held is None:
            os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return batch


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=60, step_s=0.1300, threads=None)
    book = Ledger(given.steps, given.truth)
    tokens = Tokens(random_file(given.data / "tokens.bin", SIZE), given.cured)
    model = nn.Sequential(nn.Embedding(256, 16), nn.Linear(16, 256))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in book.epochs():
        for _ in range(given.steps):
            with book.waiting():
                x = tokens.get_batch()
            logits = model(x[:, :64])
            loss = functional.cross_entropy(logits.flatten(0, 1), x[:, 1:65].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
