"""Simulated device, healthy: the loop waits for batches while the device works off what it was given before.
Gradients of four batches go into one update."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, Dataset

from tests.simulated.stage import Stage, burn

BATCHES = 4


class Photos(Dataset[torch.Tensor]):
    """Photos whose decoding costs 0.4 ms of CPU each."""

    def __len__(self) -> int:
        return 8 * 200

    def __getitem__(self, index: int) -> torch.Tensor:
        burn(0.0004)
        return torch.full((4,), float(index % 7))


def main() -> None:
    """Train for a while."""
    stage = Stage(__doc__, steps=280)
    model, optimizer = stage.model(kernels=250, kernel_s=5e-5)
    for step, batch in enumerate(stage.loop(DataLoader(Photos(), batch_size=8))):
        loss = model(batch.to("meta")) / BATCHES
        loss.backward()
        if step % BATCHES == BATCHES - 1:
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main()
