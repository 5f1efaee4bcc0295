"""Sick: each sample is parsed from its JSON text, in every epoch. Cure: parsed once, kept as an array."""

import json
import random

import torch
from ledger import Ledger
from props import options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

ROWS, EVENTS = 320, 700


class Sessions(Dataset[tuple[torch.Tensor, int]]):
    """What people clicked on, one JSON document each; a little noise keeps them from being the same twice."""

    def __init__(self, columns: bool) -> None:
        draw = random.Random(0)
        self.texts = [
            json.dumps(
                [
                    {"item": draw.randrange(1000), "seconds": draw.random(), "kind": "click"}
                    for _ in range(EVENTS)
                ]
            )
            for _ in range(ROWS)
        ]
        self.columns = torch.tensor([self.parsed(text) for text in self.texts]) if columns else None

    def parsed(self, text: str) -> list[float]:
        """How long each event lasted."""
        return [event["seconds"] for event in json.loads(text)]

    def __len__(self) -> int:
        return 6400

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        place = index % ROWS
        seconds = (
            torch.tensor(self.parsed(self.texts[place])) if self.columns is None else self.columns[place]
        )
        return seconds + 0.01 * torch.randn(EVENTS), index % 10


def main() -> None:
    given = options(__doc__, steps=900, step_s=0.0075)
    book = Ledger(given.steps, given.truth)
    loader = DataLoader(
        Sessions(columns=given.cured), batch_size=32, shuffle=True, num_workers=2, persistent_workers=True
    )
    model = torch.nn.Sequential(torch.nn.Linear(EVENTS, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.003)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
