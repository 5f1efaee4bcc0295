"""Sick: each epoch reads the same 64 MB from a slow disk: nothing stays cached. Cure: a copy in memory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import torch
from ledger import Ledger
from props import options, random_file, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

SAMPLE, SAMPLES = 256 << 10, 256


class Recordings(Dataset[torch.Tensor]):
    """Stretches of one file; what was read is dropped, as where memory is full of something else."""

    def __init__(self, path: Path) -> None:
        self.path, self.descriptor = path, -1

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.descriptor < 0:
            self.descriptor = os.open(self.path, os.O_RDONLY)
        data = os.pread(self.descriptor, SAMPLE, index * SAMPLE)
        os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        start = int(torch.randint(SAMPLE - 256, ()))
        return torch.frombuffer(bytearray(data[start : start + 256]), dtype=torch.uint8).float().div_(255)


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=320, step_s=0.021)
    book = Ledger(given.steps, given.truth)
    path = random_file(given.data / "recordings.bin", SAMPLE * SAMPLES)
    copy = Path("/dev/shm") / f"bdoc-patients-recordings-{os.getpid()}.bin"
    if given.cured:
        shutil.copyfile(path, copy)
    try:
        recordings = Recordings(copy if given.cured else path)
        loader = DataLoader(recordings, batch_size=16, shuffle=True, num_workers=1, persistent_workers=True)
        model = torch.nn.Linear(256, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in book.epochs():
            for x in book.loop(loader):
                optimizer.zero_grad()
                loss = functional.mse_loss(model(x).squeeze(1), x.mean(dim=1))
                simulated_accelerator(0.005)
                loss.backward()
                optimizer.step()
                book.note(loss)
    finally:
        copy.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
