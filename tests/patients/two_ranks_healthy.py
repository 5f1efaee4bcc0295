"""Healthy: two ranks keep their accelerators busy alike, and exchange little. Nothing to cure."""

import torch
from ledger import Ledger
from props import Options, options, simulated_accelerator
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from two_ranks import on_two_ranks


def train(rank: int, given: Options, book: Ledger) -> None:
    """Train five thousand weights on batches that take an accelerator 50 ms."""
    data = TensorDataset(torch.randn(800, 64), torch.randint(0, 10, (800,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.050)
            loss.backward()
            optimizer.step()
            if rank == 0:
                book.note(loss)


def main() -> None:
    on_two_ranks(train, options(__doc__, steps=160, step_s=0.053))


if __name__ == "__main__":
    main()
