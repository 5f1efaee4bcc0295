"""Sick: the archive is opened for each sample, its table of contents read again. Cure: once per worker."""

import zipfile
from pathlib import Path

import numpy as np
import torch
from ledger import Ledger
from props import options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

MEMBERS, WIDTH = 800, 256


def pack(path: Path) -> Path:
    """An archive of small arrays, made once."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        random, draft = np.random.default_rng(0), path.with_suffix(".draft")
        with zipfile.ZipFile(draft, "w") as archive:
            for index in range(MEMBERS):
                archive.writestr(f"{index}.bin", random.standard_normal(WIDTH, np.float32).tobytes())
        draft.replace(path)
    return path


class Archive(Dataset[torch.Tensor]):
    """Rows that are members of one zip file."""

    def __init__(self, path: Path, keep_open: bool) -> None:
        self.path, self.keep_open = path, keep_open
        self.archive: zipfile.ZipFile | None = None

    def __len__(self) -> int:
        return MEMBERS

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.keep_open:
            self.archive = self.archive or zipfile.ZipFile(self.path)
            data = self.archive.read(f"{index}.bin")
        else:
            with zipfile.ZipFile(self.path) as archive:
                data = archive.read(f"{index}.bin")
        return torch.frombuffer(bytearray(data), dtype=torch.float32) + 0.01 * torch.randn(WIDTH)


def main() -> None:
    given = options(__doc__, steps=300, step_s=0.028)
    book = Ledger(given.steps, given.truth)
    archive = Archive(pack(given.data / "rows.zip"), given.cured)
    loader = DataLoader(archive, batch_size=8, shuffle=True, num_workers=1, persistent_workers=True)
    model = torch.nn.Linear(WIDTH, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for _ in book.epochs():
        for x in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.mse_loss(model(x).squeeze(1), x.mean(dim=1))
            simulated_accelerator(0.005)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
