"""Simulated device, sick: the allocator's cache is emptied in each step. Cure: it is left alone."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.simulated.stage import Stage, train_on

BLOCKS = 8  # that a step needs


def main() -> None:
    """Train for a while."""
    stage = Stage(__doc__, steps=400)
    loader = DataLoader(TensorDataset(torch.ones(8 * 200, 4)), batch_size=8)
    model, optimizer = stage.model(kernels=150, kernel_s=4e-5)
    for (batch,) in stage.loop(loader):
        stage.device.need_memory(BLOCKS)
        train_on(model, optimizer, batch.to("meta"))
        if not stage.cured:
            torch.accelerator.empty_cache()


if __name__ == "__main__":
    main()
