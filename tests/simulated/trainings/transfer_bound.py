"""Simulated device, sick: large pageable batches are copied in line. Cure: pinned, on another stream."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.simulated.device import Stream
from tests.simulated.stage import Stage, train_on

NUMBERS = 18_000_000  # in a batch: 72 MB


def large(rows: list[tuple[torch.Tensor]]) -> torch.Tensor:
    """A batch of that many bytes, which takes no memory."""
    return torch.ones(()).expand(NUMBERS)


def main() -> None:
    """Train for a while."""
    stage = Stage(__doc__, steps=280)
    loader = DataLoader(TensorDataset(torch.ones(8 * 200, 4)), batch_size=8, collate_fn=large)
    model, optimizer = stage.model(kernels=150, kernel_s=4e-5)
    side = Stream(20)
    for batch in stage.loop(loader):
        if stage.cured:
            with stage.device.on(side):
                x = batch.pin_memory().to("meta", non_blocking=True)
        else:
            x = batch.to("meta")
        train_on(model, optimizer, x)


if __name__ == "__main__":
    main()
