"""Sick: every ten steps the loss is estimated over sixty batches, without a loader. Cure: every fifty."""

import torch
from ledger import Ledger
from props import options
from torch import nn
from torch.nn import functional

LETTERS, BLOCK, BATCH, WIDTH = 64, 64, 12, 96


class Writer(nn.Module):
    """Guesses the next letter."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, LETTERS)
        self.register_buffer("later", nn.Transformer.generate_square_subsequent_mask(BLOCK))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.layers(self.letters(x), mask=self.later, is_causal=True))
        return functional.cross_entropy(logits.flatten(0, 1), y.flatten())


def get_batch(text: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Random stretches of text, and the same one letter later."""
    starts = torch.randint(len(text) - BLOCK - 1, (BATCH,)).tolist()
    x = torch.stack([text[start : start + BLOCK] for start in starts])
    y = torch.stack([text[start + 1 : start + BLOCK + 1] for start in starts])
    return x, y


@torch.no_grad()
def estimate_loss(model: Writer, text: torch.Tensor) -> float:
    """The mean over sixty batches."""
    model.eval()
    losses = torch.stack([model(*get_batch(text)) for _ in range(60)])
    model.train()
    return losses.mean().item()


def main() -> None:
    given = options(__doc__, steps=200, step_s=0.0350, threads=None)
    book = Ledger(given.steps, given.truth)
    text = torch.randint(LETTERS, (100_000,))
    model = Writer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    every = 50 if given.cured else 10
    for _ in book.epochs():
        for step in range(given.steps):
            if step % every == 0:
                with book.aside():
                    estimate_loss(model, text)
            with book.waiting():
                x, y = get_batch(text)
            loss = model(x, y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
