"""Simulated device, sick: many small kernels, which take longer to launch than to run. Cure: a graph."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.simulated.stage import Stage, train_on


def main() -> None:
    """Train for a while."""
    stage = Stage(__doc__, steps=300, issue_s=6e-5)
    loader = DataLoader(TensorDataset(torch.ones(8 * 200, 4)), batch_size=8)
    model, optimizer = stage.model(kernels=150, kernel_s=2e-5)
    model.graph = stage.cured
    for (batch,) in stage.loop(loader):
        train_on(model, optimizer, batch.to("meta"))


if __name__ == "__main__":
    main()
