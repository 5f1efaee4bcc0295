"""Sick: Adam goes through all rows of two tables, of which a batch looks few up. Cure: sparse gradients."""

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

USERS, THINGS, WIDTH = 150_000, 50_000, 32


class Tastes(torch.nn.Module):
    """Whether a user likes a thing: the product of their rows."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.users = torch.nn.Embedding(USERS, WIDTH, sparse=sparse)
        self.things = torch.nn.Embedding(THINGS, WIDTH, sparse=sparse)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        return (self.users(pairs[:, 0]) * self.things(pairs[:, 1])).sum(dim=1)


def main() -> None:
    given = options(__doc__, steps=300, step_s=0.02, threads=None)
    book = Ledger(given.steps, given.truth)
    pairs = torch.stack([torch.randint(0, USERS, (60_000,)), torch.randint(0, THINGS, (60_000,))], dim=1)
    loader = DataLoader(TensorDataset(pairs, torch.rand(60_000).round()), batch_size=512, shuffle=True)
    model = Tastes(sparse=bool(given.cured))
    kind = torch.optim.SparseAdam if given.cured else torch.optim.Adam
    optimizer = kind(list(model.parameters()), lr=0.01)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.binary_cross_entropy_with_logits(model(x), y)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
