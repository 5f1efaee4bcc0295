"""Healthy: a GAN with convolutions, two optimizers and three backward passes, on slices of a tensor."""

from __future__ import annotations

import torch
from ledger import Ledger
from props import options
from torch import nn
from torch.nn import functional

BATCH, NOISE = 32, 32


def forger() -> nn.Module:
    """Makes pictures of 32 by 32."""
    return nn.Sequential(
        nn.ConvTranspose2d(NOISE, 64, 8),
        nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 1, 4, 2, 1),
        nn.Tanh(),
    )


def critic() -> nn.Module:
    """Judges them."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(32, 64, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(64, 1, 8),
    )


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=220, step_s=0.0300, threads=None)
    book = Ledger(given.steps, given.truth)
    pictures = torch.rand(1280, 1, 32, 32)
    make, judge = forger(), critic()
    making = torch.optim.Adam(make.parameters(), lr=2e-4, betas=(0.5, 0.999))
    judging = torch.optim.Adam(judge.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for _ in book.epochs():
        for step in range(given.steps):
            with book.waiting():
                real = pictures[step % 40 * BATCH : step % 40 * BATCH + BATCH]
            judging.zero_grad()
            functional.softplus(-judge(real)).mean().backward()
            fake = make(torch.randn(BATCH, NOISE, 1, 1))
            functional.softplus(judge(fake.detach())).mean().backward()
            judging.step()
            making.zero_grad()
            loss = functional.softplus(-judge(fake)).mean()
            loss.backward()
            making.step()
            book.note(loss)


if __name__ == "__main__":
    main()
