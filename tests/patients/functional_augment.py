"""Sick: a function makes each batch anew with torch.nn.functional, between two updates of a GAN.

Cure: a batch is made once.
"""

import torch
from ledger import Ledger
from props import options
from torch import nn
from torch.nn import functional

BATCH, SIDE, WIDTH = 24, 96, 256


class Source:
    """Crops and enlarges random pictures, one after the other."""

    def __init__(self, kept: bool) -> None:
        self.pictures = torch.rand(64, 1, SIDE, SIDE)
        self.kept = self.draw() if kept else None

    def draw(self) -> torch.Tensor:
        chosen = torch.randint(len(self.pictures), (BATCH,))
        return torch.stack([self.change(self.pictures[number]) for number in chosen])

    def change(self, picture: torch.Tensor) -> torch.Tensor:
        large = functional.interpolate(picture[None], scale_factor=2, mode="bicubic")
        small = functional.avg_pool2d(functional.unfold(large, 3, padding=1)[None], (9, 1))
        return functional.adaptive_avg_pool1d(small.flatten(1), WIDTH)[0]

    def batch(self) -> torch.Tensor:
        return self.draw() if self.kept is None else self.kept


def main() -> None:
    given = options(__doc__, steps=220, step_s=0.035, threads=None)
    book = Ledger(given.steps, given.truth)
    source = Source(given.cured)
    maker = nn.Sequential(nn.Linear(WIDTH, 512), nn.ReLU(), nn.Linear(512, WIDTH))
    critic = nn.Sequential(nn.Linear(WIDTH, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1))
    makes = torch.optim.Adam(maker.parameters(), lr=1e-4)
    judges = torch.optim.Adam(critic.parameters(), lr=1e-4)
    for _ in book.epochs():
        for _ in range(given.steps):
            with book.waiting():
                real = source.batch()
            fake = maker(torch.randn(BATCH, WIDTH))
            judged = (
                functional.softplus(-critic(real)).mean() + functional.softplus(critic(fake.detach())).mean()
            )
            judges.zero_grad()
            judged.backward()
            judges.step()
            loss = functional.softplus(-critic(fake)).mean()
            makes.zero_grad()
            loss.backward()
            makes.step()
            book.note(loss)


if __name__ == "__main__":
    main()
