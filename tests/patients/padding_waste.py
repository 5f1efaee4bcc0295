"""Sick: short sentences are filled up to the longest of their batch. Cure: batches of like lengths."""

import random

import torch
from ledger import Ledger
from props import options
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

WORDS, BATCH, WIDTH = 2000, 32, 96


class Sentences(Dataset[torch.Tensor]):
    """Word numbers; most sentences are short, a few are long. Zero is kept for padding."""

    def __init__(self) -> None:
        chance = random.Random(0)
        lengths = [min(240, 10 + int(chance.expovariate(1 / 40))) for _ in range(3200)]
        self.rows = [torch.randint(1, WORDS, (length,)) for length in lengths]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.rows[index]


def pad(sentences: list[torch.Tensor]) -> torch.Tensor:
    """(batch, longest)."""
    return pad_sequence(sentences, batch_first=True)


def alike(data: Sentences) -> list[list[int]]:
    """Batches of sentences of like lengths, in random order."""
    order = sorted(range(len(data)), key=lambda place: len(data.rows[place]))
    batches = [order[place : place + BATCH] for place in range(0, len(order), BATCH)]
    random.Random(1).shuffle(batches)
    return batches


def main() -> None:
    given = options(__doc__, steps=330, step_s=0.0210)
    book = Ledger(given.steps, given.truth)
    data = Sentences()
    if given.cured:
        loader = DataLoader(data, batch_sampler=alike(data), collate_fn=pad)
    else:
        loader = DataLoader(data, batch_size=BATCH, shuffle=True, collate_fn=pad)
    hidden = [nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH), nn.ReLU()]
    model = nn.Sequential(nn.Embedding(WORDS, WIDTH, padding_idx=0), *hidden, nn.Linear(WIDTH, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x in book.loop(loader):
            optimizer.zero_grad()
            real = (x > 0).unsqueeze(-1)
            loss = (model(x).square() * real).sum() / real.sum()
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
