"""Its data set holds a function that no other process can be given, and its workers are spawned."""

import torch
from torch.utils.data import DataLoader, Dataset


class Scaled(Dataset):
    """Numbers, scaled by a function without a name."""

    def __init__(self):
        self.scale = lambda value: 2 * value

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return self.scale(torch.ones(4))


if __name__ == "__main__":
    for _ in DataLoader(Scaled(), batch_size=8, num_workers=1, multiprocessing_context="spawn"):
        pass
