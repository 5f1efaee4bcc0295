"""Sick: gradients of four batches add up, and are exchanged after each of them. Cure: no_sync for three."""

import contextlib

import torch
from ledger import Ledger
from props import Options, options
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from two_ranks import on_two_ranks

BATCHES = 4  # for each step of the optimizer


def train(rank: int, given: Options, book: Ledger) -> None:
    """Train 2 million weights on batches of 16 rows."""
    data = TensorDataset(torch.randn(1600, 512), torch.randint(0, 10, (1600,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = DistributedDataParallel(
        torch.nn.Sequential(
            *(layer for _ in range(8) for layer in (torch.nn.Linear(512, 512), torch.nn.ReLU())),
            torch.nn.Linear(512, 10),
        )
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for number, (x, y) in enumerate(book.loop(loader)):
            last = number % BATCHES == BATCHES - 1
            with model.no_sync() if given.cured and not last else contextlib.nullcontext():
                loss = functional.cross_entropy(model(x), y)
                (loss / BATCHES).backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
            if rank == 0:
                book.note(loss)


def main() -> None:
    on_two_ranks(train, options(__doc__, steps=320, step_s=0.020))


if __name__ == "__main__":
    main()
