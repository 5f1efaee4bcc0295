"""Simulated device, sick: the loop decodes photos itself, and evaluates now and then. Cure: two workers."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.simulated.stage import Stage, train_on
from tests.simulated.trainings.starved_by_cpu import Photos

EVERY, FIRST = 190, 15  # far from where a profiler's window opens


def main() -> None:
    """Train for a while."""
    stage = Stage(__doc__, steps=220)
    workers = 2 if stage.cured else 0
    loader = DataLoader(Photos(), batch_size=8, num_workers=workers, persistent_workers=workers > 0)
    held_out = DataLoader(TensorDataset(torch.ones(8 * 10, 4)), batch_size=8)
    model, optimizer = stage.model(kernels=150, kernel_s=4e-5)
    for step, batch in enumerate(stage.loop(loader)):
        train_on(model, optimizer, batch.to("meta"))
        if step % EVERY == FIRST:
            with stage.truth.during("evaluation"), torch.no_grad():
                for (other,) in held_out:
                    model(other.to("meta")).item()


if __name__ == "__main__":
    main()
