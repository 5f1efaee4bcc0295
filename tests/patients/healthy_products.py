"""Healthy: large products, a thread for each core, the best precision, a fused optimizer."""

import os

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset


def main() -> None:
    given = options(__doc__, steps=300, step_s=0.0200, threads=len(os.sched_getaffinity(0)))
    book = Ledger(given.steps, given.truth)
    torch.set_float32_matmul_precision("medium")
    data = TensorDataset(torch.randn(6400, 512), torch.randint(0, 10, (6400,)))
    batches = BatchSampler(RandomSampler(data), 128, drop_last=True)
    loader = DataLoader(data, batch_size=None, sampler=batches)
    model = torch.nn.Sequential(
        torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU(),
        torch.nn.Linear(1024, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
