"""Sick: every step writes all weights to its log. Cure: every fiftieth step does."""

import json
import os

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    given = options(__doc__, steps=420, step_s=0.0140, threads=None)
    book = Ledger(given.steps, given.truth)
    every, step = 50 if given.cured else 1, 0
    given.data.mkdir(parents=True, exist_ok=True)
    path = given.data / f"weights-{os.getpid()}.jsonl"
    data = TensorDataset(torch.randn(3200, 64), torch.randint(0, 10, (3200,)))
    loader = DataLoader(data, batch_size=32, shuffle=True)
    model = torch.nn.Sequential(torch.nn.Linear(64, 160), torch.nn.ReLU(), torch.nn.Linear(160, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with path.open("w") as log:
        for epoch in book.epochs():
            for x, y in book.loop(loader):
                optimizer.zero_grad()
                loss = functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                step += 1
                if step % every == 0:
                    weights = {name: weight.tolist() for name, weight in model.named_parameters()}
                    log.write(json.dumps({"epoch": epoch, "step": step, "weights": weights}) + "\n")
                book.note(loss)
    path.unlink()


if __name__ == "__main__":
    main()
