"""Simulated device, sick: each loss is read, then Python works while the device idles. Cure: few are read."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.simulated.stage import Stage, burn, train_on


def main() -> None:
    """Train for a while."""
    stage = Stage(__doc__, steps=300)
    loader = DataLoader(TensorDataset(torch.ones(8 * 200, 4)), batch_size=8)
    model, optimizer = stage.model(kernels=150, kernel_s=2.5e-5)
    for step, (batch,) in enumerate(stage.loop(loader)):
        loss = train_on(model, optimizer, batch.to("meta"))
        if not stage.cured or step % 50 == 0:
            loss.item()
        burn(0.005)  # the script's own book-keeping


if __name__ == "__main__":
    main()
