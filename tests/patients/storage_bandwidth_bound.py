"""Sick: four workers read 16 MB a batch, all the disk delivers. Cure: the file lies in memory (tmpfs)."""

import mmap
import os
import shutil
from pathlib import Path

import torch
from ledger import Ledger
from props import options, random_file, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

VOLUME, VOLUMES, SLICE = 4 << 20, 64, 4096


class Volumes(Dataset[tuple[torch.Tensor, int]]):
    """Scans of 4 MB, of which training uses a random slice; the disk is read past the page cache."""

    def __init__(self, path: Path, direct: bool) -> None:
        self.path, self.flags = path, os.O_RDONLY | (os.O_DIRECT if direct else 0)
        self.descriptor: int | None = None
        self.volume = mmap.mmap(-1, VOLUME, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def __len__(self) -> int:
        return 3200

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self.descriptor is None:
            self.descriptor = os.open(self.path, self.flags)
        os.preadv(self.descriptor, [self.volume], index % VOLUMES * VOLUME)
        start = int(torch.randint(VOLUME - SLICE, ()))
        scan = torch.frombuffer(bytearray(self.volume[start : start + SLICE]), dtype=torch.uint8)
        return scan.float().div_(255), index % 10


def main() -> None:
    given = options(__doc__, steps=400, step_s=0.0210)
    book = Ledger(given.steps, given.truth)
    path = random_file(given.data / "volumes.bin", VOLUME * VOLUMES)
    staged = Path("/dev/shm") / f"bdoc-patients-volumes-{os.getpid()}.bin"
    if given.cured:
        shutil.copyfile(path, staged)
    try:
        volumes = Volumes(staged, direct=False) if given.cured else Volumes(path, direct=True)
        loader = DataLoader(volumes, batch_size=4, shuffle=True, num_workers=4, persistent_workers=True)
        model = torch.nn.Linear(SLICE, 10)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
        for _ in book.epochs():
            for x, y in book.loop(loader):
                optimizer.zero_grad()
                loss = functional.cross_entropy(model(x), y)
                simulated_accelerator(0.002)
                loss.backward()
                optimizer.step()
                book.note(loss)
    finally:
        staged.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
