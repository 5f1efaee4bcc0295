"""Trains a little, then nothing moves any more: ``worker`` or ``loop`` says where."""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

WHERE = sys.argv[1]


class Numbers(Dataset):
    """Numbers; the worker that is to fetch a late one falls asleep."""

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        if WHERE == "worker" and index >= 256:
            time.sleep(60)
        return torch.ones(4)


model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, x in enumerate(DataLoader(Numbers(), batch_size=8, num_workers=int(WHERE == "worker"))):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    time.sleep(0.01)
    if WHERE == "loop" and step == 25:
        time.sleep(60)
