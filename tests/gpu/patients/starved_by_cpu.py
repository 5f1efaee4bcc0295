"""Sick: 16 photos a batch cost 1 ms of CPU each in the training process. Cure: workers."""

import os

import torch
from clock import Clock
from stage import burn, options, products
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset[torch.Tensor]):
    """Photos whose decoding costs a millisecond."""

    def __init__(self, width: int) -> None:
        self.pixels = torch.randn(4096, width)

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> torch.Tensor:
        burn(0.001)
        return self.pixels[index]


def main() -> None:
    stage = options(__doc__, step_s=0.018)
    clock = Clock(stage, batch=16)
    workers = (stage.workers or min(8, os.cpu_count() or 1)) if stage.cured else 0
    loader = DataLoader(
        Photos(stage.size(2048, 16)),
        batch_size=16,
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=stage.cuda,
    )
    model = products(stage, 0.004, dtype=stage.half)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for x in clock.loop(loader):
        optimizer.zero_grad()
        x = x.to(stage.device, non_blocking=True)  # and then, not at once: the CPU would convert it
        loss = model(x.to(stage.half)).float().square().mean()
        loss.backward()
        optimizer.step()
    clock.close(loss)


if __name__ == "__main__":
    main()
