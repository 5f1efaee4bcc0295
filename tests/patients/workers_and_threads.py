"""Sick: workers that prepare samples keep a core from the model's second thread.

Cure: samples are prepared already.
"""

from __future__ import annotations

import torch
from ledger import Ledger
from props import options
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

LENGTH, BATCH, VOCABULARY, WIDTH = 32, 32, 64, 64


class Texts(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Sums up letters in Python to draw the next one, for each sample."""

    def __init__(self, size: int, cured: bool) -> None:
        self.size, self.cured = size, cured

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        state = number
        for value in range(1 if self.cured else 18000):
            state = (state * 31 + value) & 0xFFFF
        letters = (torch.arange(LENGTH + 1) * 7 + number % 13) % VOCABULARY
        return letters[:-1], letters[1:]


class Model(nn.Module):
    """Two layers of attention over a few letters."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.body(self.table(letters)))
        return scores.flatten(0, 1)


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=200, step_s=0.045, threads=None)
    book = Ledger(given.steps, given.truth)
    loader = DataLoader(Texts(BATCH * given.steps, given.cured), batch_size=BATCH, num_workers=2)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in book.epochs():
        for letters, wanted in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(letters), wanted.flatten())
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
