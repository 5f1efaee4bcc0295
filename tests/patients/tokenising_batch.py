"""Sick: ``get_batch()`` splits and numbers its sentences for every step. Cure: the text is numbered once."""

from __future__ import annotations

import random
import re

import torch
from ledger import Ledger
from props import options
from torch.nn import functional

SENTENCES, WORDS, BATCH, LENGTH = 4000, 3000, 64, 48
WORD = re.compile(r"[a-z]+|[^a-z\s]")


def sentences() -> list[str]:
    """A corpus of words that nobody speaks."""
    draw = random.Random(0)
    words = [
        "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randrange(2, 9))) for _ in range(WORDS)
    ]
    return [" ".join(draw.choices(words, k=LENGTH)).capitalize() + "." for _ in range(SENTENCES)]


class Vocabulary:
    """Numbers for words, as they are met."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def encode(self, sentence: str) -> list[int]:
        """The first words of a sentence, as numbers."""
        found = []
        for word in WORD.findall(sentence.lower()):
            found.append(self.numbers.setdefault(word, len(self.numbers)))
        return found[:LENGTH]


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=2800, step_s=0.0017, threads=None)
    book = Ledger(given.steps, given.truth)
    vocabulary, places = Vocabulary(), random.Random(1)
    texts = sentences()
    encoded = torch.tensor([vocabulary.encode(text) for text in texts])

    def get_batch() -> torch.Tensor:
        rows = [places.randrange(SENTENCES) for _ in range(BATCH)]
        if given.cured:
            return encoded[rows]
        return torch.tensor([vocabulary.encode(texts[row]) for row in rows])

    words = torch.nn.EmbeddingBag(WORDS + 1, 32)
    optimizer = torch.optim.SGD(words.parameters(), lr=0.5)
    for _ in book.epochs():
        for _ in range(given.steps):
            with book.waiting():
                tokens = get_batch()
            optimizer.zero_grad()
            halves = words(tokens[:, ::2]), words(tokens[:, 1::2])
            loss = functional.cross_entropy(halves[0] @ halves[1].T, torch.arange(BATCH))
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
