"""Healthy: a recurrent language model whose weights the script updates, without optimizer and loader."""

import torch
from ledger import Ledger
from props import options
from torch import nn
from torch.nn import functional

WORDS, STREAMS, LENGTH, WIDTH = 2000, 20, 16, 128


class Speaker(nn.Module):
    """Guesses the next word."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.memory = nn.LSTM(WIDTH, WIDTH, 2, dropout=0.2)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        said, state = self.memory(self.words(x), state)
        return self.head(said).flatten(0, 1), *state


def main() -> None:
    given = options(__doc__, steps=600, step_s=0.0090, threads=None)
    book = Ledger(given.steps, given.truth)
    text = torch.randint(0, WORDS, (200 * LENGTH + 1, STREAMS))
    model = Speaker()
    for _ in book.epochs():
        state = torch.zeros(2, STREAMS, WIDTH), torch.zeros(2, STREAMS, WIDTH)
        for step in range(given.steps):
            with book.waiting():
                start = step % 200 * LENGTH
                x, y = text[start : start + LENGTH], text[start + 1 : start + LENGTH + 1].flatten()
            model.zero_grad()
            logits, *state = model(x, tuple(part.detach() for part in state))
            loss = functional.cross_entropy(logits, y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            for weight in model.parameters():
                weight.data.add_(weight.grad, alpha=-2.0)
            book.note(loss)


if __name__ == "__main__":
    main()
