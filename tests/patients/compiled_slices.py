"""Healthy: a compiled model on slices of a tensor."""

import torch
from ledger import Ledger
from props import options
from torch import nn
from torch.nn import functional

LETTERS, BLOCK, BATCH, WIDTH = 64, 64, 24, 128


class Block(nn.Module):
    """Attention to what came before, and a layer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = (
            part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.mix(self.first(x)).chunk(3, dim=-1)
        )
        seen = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(-2))
        return x + self.think(self.second(x))


def main() -> None:
    given = options(__doc__, steps=150, step_s=0.0400, threads=None)
    book = Ledger(given.steps, given.truth)
    text = torch.randint(LETTERS, (200_000,))
    model = nn.Sequential(nn.Embedding(LETTERS, WIDTH), Block(), Block(), nn.Linear(WIDTH, LETTERS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    # The backend that traces forward and backward and needs no compiler of C++ on the machine.
    compiled = torch.compile(model, backend="aot_eager")
    for _ in book.epochs():
        for _ in range(given.steps):
            with book.waiting():
                places = torch.randint(len(text) - BLOCK - 1, (BATCH, 1)) + torch.arange(BLOCK + 1)
                tokens = text[places]
            loss = functional.cross_entropy(compiled(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
