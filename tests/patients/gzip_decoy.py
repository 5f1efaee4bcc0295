"""Decoy: the files are read from the page cache and unpacked; gzip is CPU, not I/O. Cure: stored unpacked."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import torch
from ledger import Ledger
from props import options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

FILES, SHAPE = 256, (128, 256)


def write(folder: Path) -> None:
    """Write each array as it is and through gzip: smooth values, which pack well."""
    if (folder / "ready").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for index in range(FILES):
        values = np.cumsum(random.integers(-2, 3, SHAPE, dtype=np.int16), axis=1, dtype=np.int16)
        (folder / f"{index}.bin").write_bytes(values.tobytes())
        (folder / f"{index}.bin.gz").write_bytes(gzip.compress(values.tobytes(), 6))
    (folder / "ready").touch()


class Spectra(Dataset[tuple[torch.Tensor, int]]):
    """Spectra with a little noise."""

    def __init__(self, folder: Path, suffix: str) -> None:
        self.files = [folder / f"{index % FILES}.{suffix}" for index in range(6400)]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        file = self.files[index]
        data = gzip.open(file).read() if file.suffix == ".gz" else file.read_bytes()
        values = torch.frombuffer(bytearray(data), dtype=torch.int16).view(SHAPE)
        return values[:, ::16].float().div_(100) + 0.1 * torch.randn(SHAPE[0], SHAPE[1] // 16), index % 10


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=800, step_s=0.0095)
    book = Ledger(given.steps, given.truth)
    folder = given.data / "gzip"
    write(folder)
    spectra = Spectra(folder, "bin" if given.cured else "bin.gz")
    loader = DataLoader(spectra, batch_size=32, shuffle=True, num_workers=2, persistent_workers=True)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(SHAPE[0] * SHAPE[1] // 16, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.002)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
