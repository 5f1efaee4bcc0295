"""Sick: a generator parses lines of numbers anew in every epoch. Cure: once, into an array."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import numpy as np
import torch
from ledger import Ledger
from props import options
from torch.nn import functional

ROWS, COLUMNS, BATCH = 12_800, 40, 128


def table() -> str:
    """Measurements as a spreadsheet exports them."""
    values = np.random.default_rng(0).normal(size=(ROWS, COLUMNS))
    return "\n".join(",".join(f"{value:.4f}" for value in row) for row in values) + "\n"


def parsed(text: str) -> Iterator[torch.Tensor]:
    """One epoch, line by line."""
    rows: list[list[float]] = []
    for row in csv.reader(io.StringIO(text)):
        rows.append([float(cell) for cell in row])
        if len(rows) == BATCH:
            yield torch.tensor(rows)
            rows = []


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=3000, step_s=0.0016, threads=None)
    book = Ledger(given.steps, given.truth)
    text = table()
    array = torch.cat(list(parsed(text))) if given.cured else None
    model = torch.nn.Sequential(torch.nn.Linear(COLUMNS - 1, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in book.epochs():
        for rows in book.loop(parsed(text) if array is None else array.split(BATCH)):
            optimizer.zero_grad()
            loss = functional.mse_loss(model(rows[:, 1:]), rows[:, :1])
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
