"""Sick: one worker reads cold pages one at a time, past the page cache. Cure: more workers."""

import mmap
import os
from pathlib import Path

import torch
from clock import Clock
from speed import PAGE, PAGES, cold_file
from stage import not_here, options, products
from torch.utils.data import DataLoader, Dataset

BATCH = 8
READING_S = 0.016  # for a batch, by one worker


class Records(Dataset[torch.Tensor]):
    """Samples made of pages that lie all over a file."""

    def __init__(self, path: Path, reads: int, width: int) -> None:
        self.path, self.reads, self.width = path, reads, width
        self.descriptor: int | None = None
        self.page: mmap.mmap | None = None

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.descriptor is None or self.page is None:
            self.descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECT)
            self.page = mmap.mmap(-1, PAGE)
        for place in torch.randint(PAGES, (self.reads,)).tolist():
            os.preadv(self.descriptor, [self.page], place * PAGE)
        return torch.frombuffer(bytearray(self.page[: self.width]), dtype=torch.uint8).float().div_(255)


def main() -> None:
    stage = options(__doc__, step_s=0.018)
    if not stage.speed.read_s:
        not_here(f"{stage.data} lies on a file system that cannot be read past the page cache; see --data")
    clock = Clock(stage, batch=BATCH)
    reads = min(256, max(4, round(READING_S / BATCH / stage.speed.read_s)))
    workers = (stage.workers or 8) if stage.cured else 1
    loader = DataLoader(
        Records(cold_file(stage.data), reads, stage.size(2048, 16)),
        batch_size=BATCH,
        shuffle=True,
        num_workers=workers,
        persistent_workers=True,
        pin_memory=stage.cuda,
    )
    model = products(stage, 0.003, dtype=stage.half)
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
