"""Sick: sentences are padded as Python lists. Cure: torch pads them."""

import torch
from ledger import Ledger
from props import options, simulated_accelerator
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

Sample = tuple[torch.Tensor, int]


class Sentences(Dataset[Sample]):
    """Sentences of 20 to 400 tokens, already tokenised."""

    def __init__(self) -> None:
        self.lengths = torch.randint(20, 400, (12_800,)).tolist()
        self.tokens = torch.randint(1, 1000, (400,))

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Sample:
        return self.tokens[: self.lengths[index]], index % 10


def pad_lists(batch: list[Sample]) -> tuple[torch.Tensor, torch.Tensor]:
    """Pad each sentence as a list of numbers."""
    longest = max(len(tokens) for tokens, _ in batch)
    rows = [tokens.tolist() + [0] * (longest - len(tokens)) for tokens, _ in batch]
    return torch.tensor(rows), torch.tensor([label for _, label in batch])


def pad_tensors(batch: list[Sample]) -> tuple[torch.Tensor, torch.Tensor]:
    """Pad all sentences in one call."""
    tokens, labels = zip(*batch, strict=True)
    return pad_sequence(tokens, batch_first=True), torch.tensor(labels)


def main() -> None:
    given = options(__doc__, steps=1200, step_s=0.0065)
    book = Ledger(given.steps, given.truth)
    collate = pad_tensors if given.cured else pad_lists
    loader = DataLoader(
        Sentences(), batch_size=128, shuffle=True, num_workers=2, persistent_workers=True, collate_fn=collate
    )
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in book.epochs():
        for tokens, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(tokens[:, :20].float().div_(1000)), y)
            simulated_accelerator(0.001)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
