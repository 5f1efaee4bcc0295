"""Sick: the environment hands down one thread, as launchers do. Cure: a thread for each core."""

import os
import sys

if "--cured" not in sys.argv:
    os.environ["OMP_NUM_THREADS"] = "1"

import torch  # noqa: E402
from ledger import Ledger  # noqa: E402
from props import options  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset  # noqa: E402


def main() -> None:
    given = options(__doc__, steps=500, step_s=0.0140, threads=None)
    book = Ledger(given.steps, given.truth)
    data = TensorDataset(torch.randn(6400, 512), torch.randint(0, 10, (6400,)))
    batches = BatchSampler(RandomSampler(data), 128, drop_last=True)
    loader = DataLoader(data, batch_size=None, sampler=batches)
    model = torch.nn.Sequential(
        torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU(),
        torch.nn.Linear(1024, 10),
    )  # fmt: skip
    torch.set_float32_matmul_precision("medium")
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
