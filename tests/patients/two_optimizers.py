"""Sick: a GAN, two optimizer steps a batch, decodes in its own process. Cure: two workers."""

from __future__ import annotations

import torch
from ledger import Ledger
from props import burn, options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset[torch.Tensor]):
    """Photos whose decoding costs 1.5 ms of CPU each."""

    def __init__(self) -> None:
        self.rows = torch.randn(1600, 64)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        burn(0.0015)
        return self.rows[index] + 0.1 * torch.randn(64)


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=380, step_s=0.0220)
    book = Ledger(given.steps, given.truth)
    workers = (given.workers or 2) if given.cured else 0
    loader = DataLoader(
        Photos(), batch_size=8, shuffle=True, num_workers=workers, persistent_workers=workers > 0
    )
    forger, critic = torch.nn.Linear(16, 64), torch.nn.Linear(64, 1)
    forging = torch.optim.Adam(forger.parameters(), lr=0.001)
    judging = torch.optim.Adam(critic.parameters(), lr=0.001)
    for _ in book.epochs():
        for real in book.loop(loader):
            fake = forger(torch.randn(8, 16))
            judging.zero_grad()
            simulated_accelerator(0.004)
            verdict = (
                functional.softplus(-critic(real)).mean() + functional.softplus(critic(fake.detach())).mean()
            )
            verdict.backward()
            judging.step()
            forging.zero_grad()
            simulated_accelerator(0.004)
            loss = functional.softplus(-critic(fake)).mean()
            loss.backward()
            forging.step()
            book.note(loss)


if __name__ == "__main__":
    main()
