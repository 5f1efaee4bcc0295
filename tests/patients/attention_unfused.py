"""Sick: attention is product, softmax, product over all pairs of places. Cure: one fused operator."""

import torch
from ledger import Ledger
from props import options
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

LENGTH, WIDTH, HEADS = 512, 64, 2


class Attention(nn.Module):
    """Self-attention over all places."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.split, self.join = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to the same."""
        heads = self.split(x).view(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k, v = heads.unbind()
        if self.fused:
            y = functional.scaled_dot_product_attention(q, k, v)
        else:
            y = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1) @ v
        return self.join(y.transpose(1, 2).reshape(x.shape))


def main() -> None:
    given = options(__doc__, steps=230, step_s=0.0300)
    book = Ledger(given.steps, given.truth)
    data = TensorDataset(torch.randn(256, LENGTH, WIDTH), torch.randn(256, LENGTH, WIDTH))
    loader = DataLoader(data, batch_size=4, shuffle=True)
    model = nn.Sequential(Attention(given.cured), Attention(given.cured))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
