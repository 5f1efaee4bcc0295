"""Sick: ``get_batch()`` encodes its text anew for every step. Cure: the text is encoded once."""

import random

import torch
from ledger import Ledger
from props import options
from torch.nn import functional

BLOCK, BATCH, LENGTH = 256, 48, 400_000
LETTERS = "abcdefghijklmnopqrstuvwxyz .,\n"


class Corpus:
    """A text, and the code of each of its letters."""

    def __init__(self, encoded: bool) -> None:
        draw = random.Random(0)
        self.text = "".join(draw.choices(LETTERS.upper(), k=LENGTH))
        self.code = {letter: number for number, letter in enumerate(LETTERS)}
        self.tokens = torch.tensor([self.code[letter.lower()] for letter in self.text]) if encoded else None
        self.places = random.Random(1)

    def block(self, start: int) -> torch.Tensor:
        """One stretch of text and the letter after it, as numbers."""
        if self.tokens is not None:
            return self.tokens[start : start + BLOCK + 1]
        letters = self.text[start : start + BLOCK + 1]
        return torch.tensor([self.code[letter.lower()] for letter in letters])


def get_batch(corpus: Corpus) -> tuple[torch.Tensor, torch.Tensor]:
    """Random stretches of text, and the same shifted by one letter."""
    starts = [corpus.places.randrange(LENGTH - BLOCK - 1) for _ in range(BATCH)]
    blocks = torch.stack([corpus.block(start) for start in starts])
    return blocks[:, :-1], blocks[:, 1:]


def main() -> None:
    given = options(__doc__, steps=1500, step_s=0.0050)
    book = Ledger(given.steps, given.truth)
    corpus = Corpus(encoded=given.cured)
    model = torch.nn.Embedding(len(LETTERS), len(LETTERS))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for _ in book.epochs():
        for _ in range(given.steps):
            with book.waiting():
                x, y = get_batch(corpus)
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
