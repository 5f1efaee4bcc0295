"""Sick: short epochs end with a validation whose loader computes spectra anew. Cure: the spectra are kept."""

import numpy as np
import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset


class Spectra(Dataset[tuple[torch.Tensor, int]]):
    """Recordings of which the model wants the spectrum."""

    def __init__(self, kept: bool) -> None:
        self.sound = np.random.default_rng(0).normal(size=(400, 32_768))
        self.kept: dict[int, torch.Tensor] | None = {} if kept else None

    def __len__(self) -> int:
        return len(self.sound)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self.kept is None:
            return self.spectrum(index), index % 10
        if index not in self.kept:
            self.kept[index] = self.spectrum(index)
        return self.kept[index], index % 10

    def spectrum(self, index: int) -> torch.Tensor:
        """Loudness in 64 bands, over windows that overlap."""
        windows = np.lib.stride_tricks.sliding_window_view(self.sound[index], 1024)[::256] * np.hanning(1024)
        loud = np.log1p(np.abs(np.fft.rfft(windows, axis=1))[:, :512])
        return torch.from_numpy(loud.reshape(len(windows), 64, 8).mean(axis=(0, 2))).float()


def validate(model: torch.nn.Module, loader: DataLoader[tuple[torch.Tensor, int]]) -> float:
    """The mean loss on recordings held out."""
    model.eval()
    with torch.no_grad():
        losses = [functional.cross_entropy(model(x), y).item() for x, y in loader]
    model.train()
    return sum(losses) / len(losses)


def main() -> None:
    given = options(__doc__, steps=480, step_s=0.0100, threads=None)
    book = Ledger(given.steps, given.truth)
    rows = TensorDataset(torch.randn(640, 64), torch.randint(0, 10, (640,)))
    train = DataLoader(rows, batch_size=32, shuffle=True)
    valid = DataLoader(Spectra(kept=given.cured), batch_size=20)
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in book.epochs():
        for x, y in book.loop(train):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            book.note(loss)
        with book.aside():
            validate(model, valid)


if __name__ == "__main__":
    main()
