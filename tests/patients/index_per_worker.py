"""Sick: each epoch's new workers parse the index before their first sample. Cure: persistent workers."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

ENTRIES, SAMPLES = 30_000, 512


class Indexed(Dataset[tuple[torch.Tensor, int]]):
    """Samples that an index describes, which is read when the first of them is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.index: list[dict[str, object]] | None = None

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        if self.index is None:
            self.index = json.loads(self.path.read_text())
        entry = self.index[number]
        return torch.tensor(entry["values"]), int(entry["label"])


def written(path: Path) -> Path:
    """An index of which the samples need a small part."""
    draw = random.Random(0)
    entries = [
        {"name": f"{n:06}.jpg", "label": n % 10, "values": [round(draw.random(), 6) for _ in range(16)]}
        for n in range(ENTRIES)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(entries))
    return path


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=256, step_s=0.030, threads=None)
    book = Ledger(given.steps, given.truth)
    path = written(given.data / f"index-{os.getpid()}.json")
    loader = DataLoader(
        Indexed(path), batch_size=32, shuffle=True, num_workers=2, persistent_workers=given.cured
    )
    model = torch.nn.Sequential(torch.nn.Linear(16, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            book.note(loss)
    path.unlink()


if __name__ == "__main__":
    main()
