"""Sick: a table in memory is read row by row in Python and stacked again. Cure: one gather per batch."""

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

ROWS, FEATURES, BATCH = 131_072, 64, 2048


class GatheredTensors(TensorDataset):
    """A TensorDataset that takes all rows of a batch at once."""

    def __getitems__(self, indices: list[int]) -> tuple[torch.Tensor, ...]:
        rows = torch.as_tensor(indices)
        return tuple(tensor[rows] for tensor in self.tensors)


def as_it_is(batch: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """The batch is already a batch."""
    return batch


def main() -> None:
    given = options(__doc__, steps=576, step_s=0.0130)
    book = Ledger(given.steps, given.truth)
    x_all, y_all = torch.randn(ROWS, FEATURES), torch.randint(0, 10, (ROWS,))
    loader = (
        DataLoader(GatheredTensors(x_all, y_all), batch_size=BATCH, shuffle=True, collate_fn=as_it_is)
        if given.cured
        else DataLoader(TensorDataset(x_all, y_all), batch_size=BATCH, shuffle=True)
    )
    model = torch.nn.Sequential(torch.nn.Linear(FEATURES, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
