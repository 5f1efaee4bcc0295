"""Sick: two workers spend both cores on decoding PNG files. Cure: the same pixels stored as raw arrays."""

from pathlib import Path

import numpy as np
import torch
from ledger import Ledger
from PIL import Image
from props import options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

PHOTOS, SIDE = 128, 192


def paint(folder: Path) -> None:
    """Write the photos as PNG and as raw arrays: smooth shapes under sensor noise, as cameras give them."""
    if (folder / "ready").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for index in range(PHOTOS):
        coarse = random.integers(0, 255, (SIDE // 16, SIDE // 16, 3)).astype(np.uint8)
        smooth = np.asarray(Image.fromarray(coarse).resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.int16)
        pixels = np.clip(smooth + random.integers(-12, 12, smooth.shape), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{index}.png")
        np.save(folder / f"{index}.npy", pixels)
    (folder / "ready").touch()


class Photos(Dataset[tuple[torch.Tensor, int]]):
    """Photos, flipped at random."""

    def __init__(self, folder: Path, suffix: str) -> None:
        self.files = [folder / f"{index % PHOTOS}.{suffix}" for index in range(1600)]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        file = self.files[index]
        pixels = np.load(file) if file.suffix == ".npy" else np.asarray(Image.open(file).convert("RGB"))
        if torch.rand(()) < 0.5:
            pixels = pixels[:, ::-1]
        return torch.from_numpy(pixels.copy()), index % 10


def main() -> None:
    given = options(__doc__, steps=600, step_s=0.0130)
    book = Ledger(given.steps, given.truth)
    folder = given.data / "decode"
    paint(folder)
    photos = Photos(folder, "npy" if given.cured else "png")
    loader = DataLoader(photos, batch_size=16, shuffle=True, num_workers=2, persistent_workers=True)
    model = torch.nn.Linear(12 * 12 * 3, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            small = x[:, ::16, ::16].float().div_(255).flatten(1)
            loss = functional.cross_entropy(model(small), y)
            simulated_accelerator(0.003)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
