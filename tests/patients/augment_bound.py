"""Sick: colours are changed on the whole picture, then a small part is cut out. Cure: cut first."""

from collections.abc import Callable, Sequence

import torch
from ledger import Ledger
from props import options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

SIDE, CROP = 160, 64


class Compose:
    """One transform after the other."""

    def __init__(self, transforms: Sequence[Callable[[torch.Tensor], torch.Tensor]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, picture: torch.Tensor) -> torch.Tensor:
        for transform in self.transforms:
            picture = transform(picture)
        return picture


class ColourJitter:
    """Another contrast and another gamma each time."""

    def __call__(self, picture: torch.Tensor) -> torch.Tensor:
        contrast, gamma = 0.5 + torch.rand(2)
        mean = picture.mean(dim=(1, 2), keepdim=True)
        return (mean + contrast * (picture - mean)).clamp_(0.01, 1).pow(gamma)


class RandomCrop:
    """A small square somewhere in the picture."""

    def __call__(self, picture: torch.Tensor) -> torch.Tensor:
        top, left = (int(one) for one in torch.randint(0, SIDE - CROP, (2,)))
        return picture[:, top : top + CROP, left : left + CROP].contiguous()


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    """Pictures that are ready in memory."""

    def __init__(self, transform: Compose) -> None:
        self.pictures = torch.rand(64, 3, SIDE, SIDE)
        self.transform = transform

    def __len__(self) -> int:
        return 3200

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.transform(self.pictures[index % len(self.pictures)]), index % 10


def main() -> None:
    given = options(__doc__, steps=700, step_s=0.010)
    book = Ledger(given.steps, given.truth)
    steps = [RandomCrop(), ColourJitter()] if given.cured else [ColourJitter(), RandomCrop()]
    loader = DataLoader(
        Pictures(Compose(steps)), batch_size=24, shuffle=True, num_workers=2, persistent_workers=True
    )
    model = torch.nn.Sequential(torch.nn.AvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(192, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.003)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
