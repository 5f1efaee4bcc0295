"""Sick: ranks are counted in Python, score by score, after each step. Cure: one operator counts."""

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

CLASSES, BATCH, WIDTH = 1000, 128, 64


def ranks_in_python(logits: torch.Tensor, target: torch.Tensor) -> list[int]:
    """How many classes were thought likelier than the true one, for each sample."""
    ranks = []
    for scores, true in zip(logits.tolist(), target.tolist(), strict=True):
        mark, rank = scores[true], 0
        for score in scores:
            if score > mark:
                rank += 1
        ranks.append(rank)
    return ranks


def ranks_in_one_go(logits: torch.Tensor, target: torch.Tensor) -> list[int]:
    """The same numbers."""
    return (logits > logits.gather(1, target[:, None])).sum(1).tolist()


def main() -> None:
    given = options(__doc__, steps=900, step_s=0.0085)
    book = Ledger(given.steps, given.truth)
    data = TensorDataset(torch.randn(12_800, WIDTH), torch.randint(0, CLASSES, (12_800,)))
    batches = BatchSampler(RandomSampler(data), BATCH, drop_last=True)
    loader = DataLoader(data, batch_size=None, sampler=batches)  # a batch is one indexing
    model = torch.nn.Sequential(
        torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, CLASSES)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    ranks = ranks_in_one_go if given.cured else ranks_in_python
    likelier = 0
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            logits = model(x)
            loss = functional.cross_entropy(logits, y)
            loss.backward()
            optimizer.step()
            likelier += sum(ranks(logits.detach(), y))
            book.note(loss)


if __name__ == "__main__":
    main()
