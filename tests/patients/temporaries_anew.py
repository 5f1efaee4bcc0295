"""Sick: each step makes large tensors anew, whose pages the kernel clears. Cure: two serve all steps."""

import torch
from ledger import Ledger
from props import options
from torch.nn import functional

POINTS, WIDTH, LANDMARKS = 256, 8, 40_000


class Landmarks:
    """How near each point is to each of many landmarks: 41 MB for a batch."""

    def __init__(self, reuse: bool) -> None:
        self.places = torch.randn(LANDMARKS)
        self.near = torch.empty(POINTS, LANDMARKS) if reuse else None
        self.kept = torch.empty(POINTS, LANDMARKS) if reuse else None

    def summary(self, x: torch.Tensor) -> torch.Tensor:
        """The mean nearness of each point, in tensors that are kept or in new ones."""
        near = torch.sub(x.mean(dim=1, keepdim=True), self.places, out=self.near)
        near = torch.abs(near, out=self.kept)
        return torch.clamp(near, max=1.0, out=self.near).mean(dim=1, keepdim=True)


def main() -> None:
    given = options(__doc__, steps=80, step_s=0.0700, threads=None)
    book = Ledger(given.steps, given.truth)
    rows = torch.randn(64 * POINTS, WIDTH)
    landmarks = Landmarks(reuse=given.cured)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH + 1, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for step in range(given.steps):
            with book.waiting():
                start = step * POINTS % len(rows)
                x = rows[start : start + POINTS]
            summary = landmarks.summary(x)
            optimizer.zero_grad()
            loss = functional.mse_loss(model(torch.cat([x, summary], dim=1)), x.norm(dim=1, keepdim=True))
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
