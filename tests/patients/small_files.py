"""Sick: every sample is a small file of its own, cold on the disk. Cure: the same samples packed into one."""

import os
from pathlib import Path

import numpy as np
import torch
from ledger import Ledger
from props import options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

FILES, SIZE, PER_FOLDER = 4096, 16_384, 256


def scatter(folder: Path) -> None:
    """Write the samples twice: as one file each, and packed."""
    if (folder / "ready").exists():
        return
    random = np.random.default_rng(0)
    for start in range(0, FILES, PER_FOLDER):
        (folder / str(start)).mkdir(parents=True, exist_ok=True)
    with (folder / "packed.bin").open("wb") as packed:
        for index in range(FILES):
            sample = random.bytes(SIZE)
            name(folder, index).write_bytes(sample)
            packed.write(sample)
    os.sync()
    (folder / "ready").touch()


def name(folder: Path, index: int) -> Path:
    """Where one sample lies."""
    return folder / str(index // PER_FOLDER * PER_FOLDER) / f"{index}.bin"


def read_cold(path: Path, offset: int, size: int) -> bytes:
    """Read, then drop the pages, so that the next epoch is as cold: a dataset larger than memory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        data = os.pread(descriptor, size, offset)
        os.posix_fadvise(descriptor, offset, size, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    return data


def crop(sample: bytes) -> torch.Tensor:
    """A random stretch of a sample."""
    start = int(torch.randint(SIZE - 256, ()))
    return torch.frombuffer(bytearray(sample[start : start + 256]), dtype=torch.uint8).float().div_(255)


class Scattered(Dataset[torch.Tensor]):
    """One file for each sample."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __len__(self) -> int:
        return FILES

    def __getitem__(self, index: int) -> torch.Tensor:
        data = read_cold(name(self.folder, index), 0, SIZE)
        return crop(data)


class Packed(Dataset[torch.Tensor]):
    """All samples in one file: neighbours come with one read."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "packed.bin"

    def __len__(self) -> int:
        return FILES

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        data = read_cold(self.path, indices[0] * SIZE, len(indices) * SIZE)
        return [crop(data[at : at + SIZE]) for at in range(0, len(data), SIZE)]


def main() -> None:
    """Train for a while, in the order of the files."""
    given = options(__doc__, steps=384, step_s=0.0210)
    book = Ledger(given.steps, given.truth)
    folder = given.data / "small"
    scatter(folder)
    samples: Dataset[torch.Tensor] = Packed(folder) if given.cured else Scattered(folder)
    loader = DataLoader(samples, batch_size=128, num_workers=2, persistent_workers=True)
    model = torch.nn.Linear(256, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in book.epochs():
        for x in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.mse_loss(model(x).squeeze(1), x.mean(dim=1))
            simulated_accelerator(0.001)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
