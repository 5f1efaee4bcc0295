"""Sick: batches of 10 MB leave the workers as numpy arrays, through a pipe. Cure: as shared tensors."""

import numpy as np
import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

Sample = tuple[np.ndarray, int]
CLIP = 327_680


class Clips(Dataset[Sample]):
    """Audio clips that lie in memory: fetching costs next to nothing."""

    def __init__(self) -> None:
        self.sound = np.random.default_rng(0).standard_normal(CLIP + 4096, dtype=np.float32)

    def __len__(self) -> int:
        return 800

    def __getitem__(self, index: int) -> Sample:
        return self.sound[index : index + CLIP], index % 10


def as_arrays(batch: list[Sample]) -> tuple[np.ndarray, np.ndarray]:
    """Stack with numpy and hand over numpy arrays."""
    clips, labels = zip(*batch, strict=True)
    return np.stack(clips), np.array(labels)


def as_tensors(batch: list[Sample]) -> tuple[torch.Tensor, torch.Tensor]:
    """Stack with numpy and hand over tensors."""
    clips, labels = as_arrays(batch)
    return torch.from_numpy(clips), torch.from_numpy(labels)


def main() -> None:
    given = options(__doc__, steps=400, step_s=0.0200)
    book = Ledger(given.steps, given.truth)
    collate = as_tensors if given.cured else as_arrays
    loader = DataLoader(
        Clips(), batch_size=8, shuffle=True, num_workers=2, persistent_workers=True, collate_fn=collate
    )
    model = torch.nn.Sequential(torch.nn.Linear(512, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in book.epochs():
        for clips, labels in book.loop(loader):
            x, y = torch.as_tensor(clips), torch.as_tensor(labels)
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x[:, ::640]), y)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
