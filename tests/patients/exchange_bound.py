"""Sick: two ranks exchange large gradients after each small batch. Cure: after every second one."""

import contextlib

import torch
from ledger import Ledger
from props import Options, options
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from two_ranks import on_two_ranks


def train(rank: int, given: Options, book: Ledger) -> None:
    """Train 2.5 million weights, of which a batch of four sentences needs few."""
    data = TensorDataset(torch.randint(0, 20_000, (400, 20)), torch.randint(0, 10, (400,)))
    loader = DataLoader(data, batch_size=4, shuffle=True)
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.EmbeddingBag(20_000, 128), torch.nn.Linear(128, 10)),
        gradient_as_bucket_view=True,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    every = 2 if given.cured else 1
    for _ in book.epochs():
        for number, (x, y) in enumerate(book.loop(loader)):
            last = number % every == every - 1
            with contextlib.nullcontext() if last else model.no_sync():
                loss = functional.cross_entropy(model(x), y)
                (loss / every).backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
            if rank == 0:
                book.note(loss)


def main() -> None:
    on_two_ranks(train, options(__doc__, steps=300, step_s=0.025))


if __name__ == "__main__":
    main()
