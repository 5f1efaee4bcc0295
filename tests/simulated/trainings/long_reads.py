"""Simulated device, healthy: the loop spends its time in reading losses, which is the device at work."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.simulated.stage import Stage, train_on


def main() -> None:
    """Train for a while."""
    stage = Stage(__doc__, steps=200, spins=True)
    loader = DataLoader(TensorDataset(torch.ones(8 * 200, 4)), batch_size=8)
    model, optimizer = stage.model(kernels=250, kernel_s=1.6e-4)
    for (batch,) in stage.loop(loader):
        train_on(model, optimizer, batch.to("meta")).item()


if __name__ == "__main__":
    main()
