"""Sick: AdamW updates three hundred small tensors one by one. Cure: one fused call."""

import torch
from ledger import Ledger
from props import options
from torch.utils.data import DataLoader, TensorDataset

ADAPTERS, WIDTH = 300, 48


class Adapters(torch.nn.Module):
    """Many small adapters, applied in one batched product."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH**0.5) for _ in range(ADAPTERS)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (adapters, batch, width)."""
        return torch.matmul(x, torch.stack(list(self.weights)))


def main() -> None:
    given = options(__doc__, steps=700, step_s=0.0105)
    book = Ledger(given.steps, given.truth)
    data = TensorDataset(torch.randn(3200, WIDTH), torch.randn(3200, WIDTH))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = Adapters()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=given.cured)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
