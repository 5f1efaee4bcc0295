"""Sick: small networks in a Python loop, thousands of tiny operators. Cure: batched products."""

import torch
from ledger import Ledger
from props import options
from torch.utils.data import DataLoader, TensorDataset

MEMBERS, LAYERS, WIDTH = 96, 3, 16


class Ensemble(torch.nn.Module):
    """Small networks of equal shape whose weights lie in one tensor per layer."""

    def __init__(self, batched: bool) -> None:
        super().__init__()
        self.batched = batched
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.randn(MEMBERS, WIDTH, WIDTH) / WIDTH**0.5) for _ in range(LAYERS)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (members, batch, width)."""
        if self.batched:
            h = x.expand(MEMBERS, *x.shape)
            for weight in self.weights:
                h = torch.relu(torch.bmm(h, weight))
            return h
        outputs = []
        for layers in zip(*(weight.unbind() for weight in self.weights), strict=True):
            h = x
            for weight in layers:
                h = torch.relu(h @ weight)
            outputs.append(h)
        return torch.stack(outputs)


def main() -> None:
    given = options(__doc__, steps=900, step_s=0.0080)
    book = Ledger(given.steps, given.truth)
    data = TensorDataset(torch.randn(3200, WIDTH), torch.randn(3200, WIDTH))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = Ensemble(batched=given.cured)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
