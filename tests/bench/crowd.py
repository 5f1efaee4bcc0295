"""A training for ``tests.bench.watching``: its workers burn the CPU, as many of them as one likes."""

from __future__ import annotations

import argparse

import torch
from torch.utils.data import DataLoader, Dataset


class Burning(Dataset[torch.Tensor]):
    """Samples that take some work in Python."""

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((64,), float(sum(index * number % 7 for number in range(4000))))


def main() -> None:
    """Train until somebody ends it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--width", type=int, default=64)
    given = parser.parse_args()
    model = torch.nn.Sequential(torch.nn.Linear(64, given.width), torch.nn.Linear(given.width, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    for batch in DataLoader(Burning(), batch_size=8, num_workers=given.workers):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
