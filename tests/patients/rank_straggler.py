"""Sick: one rank was dealt the long texts, the other the short ones. Cure: deal them out evenly."""

import torch
from ledger import Ledger
from props import Options, options, simulated_accelerator
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from two_ranks import RANKS, on_two_ranks

SECOND_PER_WORD = 1e-5


def train(rank: int, given: Options, book: Ledger) -> None:
    """A text takes the accelerator as long as it has words: 800 in the short half, 2400 in the long one."""
    words = torch.tensor([800] * 200 + [2400] * 200)
    mine = torch.arange(400)[rank::RANKS] if given.cured else torch.arange(400).chunk(RANKS)[rank]
    data = TensorDataset(torch.randn(400, 64)[mine], words[mine])
    loader = DataLoader(data, batch_size=2)
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, length in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), length % 10)
            simulated_accelerator(SECOND_PER_WORD * length.float().mean().item())
            loss.backward()
            optimizer.step()
            if rank == 0:
                book.note(loss)


def main() -> None:
    on_two_ranks(train, options(__doc__, steps=260, step_s=0.027))


if __name__ == "__main__":
    main()
