"""Sick: a batch is 200 small tensors, each handed over on its own. Cure: one flat tensor and the lengths."""

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Graphs(Dataset[torch.Tensor]):
    """Graphs of 8 to 40 nodes with 16 features, in memory."""

    def __init__(self) -> None:
        self.sizes = torch.randint(8, 40, (20_000,)).tolist()
        self.nodes = torch.randn(4096, 16)

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index: int) -> torch.Tensor:
        start = index % 4000
        return self.nodes[start : start + self.sizes[index]].clone()


def as_list(graphs: list[torch.Tensor]) -> list[torch.Tensor]:
    """One tensor per graph."""
    return graphs


def as_one(graphs: list[torch.Tensor]) -> tuple[torch.Tensor, list[int]]:
    """All nodes in one tensor, and how many belong to each graph."""
    return torch.cat(graphs), [len(graph) for graph in graphs]


def main() -> None:
    given = options(__doc__, steps=300, step_s=0.0270)
    book = Ledger(given.steps, given.truth)
    collate = as_one if given.cured else as_list
    loader = DataLoader(
        Graphs(), batch_size=200, shuffle=True, num_workers=2, persistent_workers=True, collate_fn=collate
    )
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in book.epochs():
        for batch in book.loop(loader):
            graphs = batch[0].split(batch[1]) if given.cured else batch
            optimizer.zero_grad()
            sums = torch.stack([nodes.sum(dim=0) for nodes in graphs])
            loss = functional.mse_loss(model(sums).squeeze(1), sums.square().mean(dim=1))
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
