"""Sick: two ranks average their gradients by hand, after each small batch. Cure: after every fourth."""

import torch
from ledger import Ledger
from props import Options, options
from torch import distributed
from torch.nn import functional
from two_ranks import RANKS, on_two_ranks


def average(model: torch.nn.Module) -> None:
    """What DistributedDataParallel would do."""
    for weight in model.parameters():
        distributed.all_reduce(weight.grad)
        weight.grad /= RANKS


def train(rank: int, given: Options, book: Ledger) -> None:
    """Train 2 million weights on slices of a tensor."""
    tokens, labels = torch.randint(0, 30_000, (4000, 16)), torch.randint(0, 10, (4000,))
    model = torch.nn.Sequential(torch.nn.EmbeddingBag(30_000, 64), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    every = 4 if given.cured else 1
    for _ in book.epochs():
        for step in range(given.steps):
            with book.waiting():
                first = step % 250 * 16 + 8 * rank
                x, y = tokens[first : first + 8], labels[first : first + 8]
            loss = functional.cross_entropy(model(x), y)
            (loss / every).backward()
            if step % every == every - 1:
                average(model)
                optimizer.step()
                optimizer.zero_grad()
            if rank == 0:
                book.note(loss)


def main() -> None:
    on_two_ranks(train, options(__doc__, steps=200, step_s=0.033, threads=None), threads=None)


if __name__ == "__main__":
    main()
