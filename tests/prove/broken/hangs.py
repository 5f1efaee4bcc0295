"""Trains a little, then its worker moves no more."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    """Numbers; the worker that is to fetch a late one falls asleep."""

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        if index >= 256:
            time.sleep(60)
        return torch.ones(4)


model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(Numbers(), batch_size=8, num_workers=1):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    time.sleep(0.01)
