"""Simulated device, healthy: a captured graph keeps it busy, batches are copied ahead on another stream."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.simulated.device import Stream
from tests.simulated.stage import Stage, train_on


def large(rows: list[tuple[torch.Tensor]]) -> torch.Tensor:
    """A batch of 6 MB, pinned."""
    return torch.ones(()).expand(1_500_000).pin_memory()


def main() -> None:
    """Train for a while."""
    stage = Stage(__doc__, steps=320)
    loader = DataLoader(TensorDataset(torch.ones(8 * 200, 4)), batch_size=8, collate_fn=large)
    model, optimizer = stage.model(kernels=250, kernel_s=4e-5)
    model.graph = True
    side = Stream(20)
    for batch in stage.loop(loader):
        with stage.device.on(side):
            x = batch.to("meta", non_blocking=True)
        train_on(model, optimizer, x)


if __name__ == "__main__":
    main()
