"""Sick: each epoch parses the same lines into a data set of its own. Cure: one data set for all epochs."""

from __future__ import annotations

import json
import random
from zlib import crc32

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

WORDS, LONGEST = 5000, 64


class Reviews(Dataset[tuple[torch.Tensor, int]]):
    """Lines of JSON as rows of word numbers."""

    def __init__(self, lines: list[str]) -> None:
        self.rows = []
        for line in lines:
            review = json.loads(line)
            numbers = [crc32(word.strip(".,").encode()) % WORDS for word in review["text"].lower().split()]
            self.rows.append((torch.tensor((numbers + [0] * LONGEST)[:LONGEST]), review["stars"]))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        return self.rows[place]


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=700, step_s=0.016, threads=None)
    book = Ledger(given.steps, given.truth)
    draw = random.Random(0)
    texts = [" ".join(f"Word{draw.randrange(WORDS)}," for _ in range(120)) for _ in range(2400)]
    lines = [json.dumps({"text": text, "stars": draw.randrange(5)}) for text in texts]
    model = torch.nn.Sequential(
        torch.nn.EmbeddingBag(WORDS, 128), torch.nn.Linear(128, 512), torch.nn.ReLU(), torch.nn.Linear(512, 5)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    reviews = Reviews(lines)
    for _ in book.epochs():
        if not given.cured:
            reviews = Reviews(lines)
        for x, y in book.loop(DataLoader(reviews, batch_size=64, shuffle=True)):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
