"""Sick: each tenth step saves, logs, and then forces the file to the disk. Cure: each hundredth."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import torch
from ledger import Ledger
from props import options
from torch.nn import functional

log = logging.getLogger("training")


def save(model: torch.nn.Module, path: Path, step: int) -> None:
    """A checkpoint that a power cut does not halve."""
    draft = path.with_suffix(".draft")
    with draft.open("wb") as file:
        torch.save({"model": model.state_dict(), "step": step}, file)
        file.flush()
        log.info("step %d saved, %d bytes", step, file.tell())
        os.fsync(file.fileno())
    draft.replace(path)


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=800, step_s=0.0080, threads=None)
    logging.basicConfig(level=logging.INFO)
    book = Ledger(given.steps, given.truth)
    every = 100 if given.cured else 10
    given.data.mkdir(parents=True, exist_ok=True)
    path = given.data / f"checkpoint-{os.getpid()}.pt"
    model = torch.nn.Sequential(torch.nn.EmbeddingBag(50_000, 64, sparse=True), torch.nn.Linear(64, 20))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens, labels = torch.randint(0, 50_000, (6400, 64)), torch.randint(0, 20, (6400,))
    for _ in book.epochs():
        for step in range(given.steps):
            with book.waiting():
                first = step % 50 * 128
                x, y = tokens[first : first + 128], labels[first : first + 128]
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            if step % every == every - 1:
                save(model, path, step)
            book.note(loss)
    path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
