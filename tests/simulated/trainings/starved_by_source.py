"""Simulated device, sick: the training loop itself waits for each sample, asleep. Cure: two workers."""

from __future__ import annotations

import time

import torch
from torch.utils.data import DataLoader, Dataset

from tests.simulated.stage import Stage, train_on


class Remote(Dataset[torch.Tensor]):
    """Samples that come 1 ms after they were asked for."""

    def __len__(self) -> int:
        return 8 * 200

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.001)
        return torch.full((4,), float(index % 7))


def main() -> None:
    """Train for a while."""
    stage = Stage(__doc__, steps=220)
    workers = 2 if stage.cured else 0
    loader = DataLoader(Remote(), batch_size=8, num_workers=workers, persistent_workers=workers > 0)
    model, optimizer = stage.model(kernels=150, kernel_s=4e-5)
    for batch in stage.loop(loader):
        train_on(model, optimizer, batch.to("meta"))


if __name__ == "__main__":
    main()
