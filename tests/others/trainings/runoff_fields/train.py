"""Next-hour soil moisture from three surface fields (t2m, precip, swvl1), basin cut-out."""
import argparse
import os
import time

import h5py
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VARIABLES = ("t2m", "precip", "swvl1")
HISTORY = 4


class BasinDataset(Dataset):
    """(HISTORY hours of all variables) -> (soil moisture one hour later)."""

    def __init__(self, path, hours):
        self.path = path
        self.hours = list(hours)
        self.h5 = None

    def __len__(self):
        return len(self.hours)

    def __getitem__(self, i):
        if self.h5 is None:  # opened lazily so that every process has its own handle
            self.h5 = h5py.File(self.path, "r")
        t = self.hours[i]
        past = [self.h5[v][t:t + HISTORY] for v in VARIABLES]
        target = self.h5["swvl1"][t + HISTORY]
        x = torch.from_numpy(np.concatenate(past, axis=0))
        return x, torch.from_numpy(target)[None]


class Block(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.SiLU(),
            nn.Conv2d(cout, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.SiLU())

    def forward(self, x):
        return self.net(x)


class SmallUNet(nn.Module):
    def __init__(self, cin, w=12):
        super().__init__()
        self.d1, self.d2, self.d3 = Block(cin, w), Block(w, 2 * w), Block(2 * w, 4 * w)
        self.u2, self.u1 = Block(6 * w, 2 * w), Block(3 * w, w)
        self.pool = nn.AvgPool2d(2)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.out = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(self.pool(a))
        c = self.d3(self.pool(b))
        b = self.u2(torch.cat([self.up(c), b], 1))
        a = self.u1(torch.cat([self.up(b), a], 1))
        return x[:, -1:] + self.out(a)


def run_epoch(model, loader, opt=None):
    model.train(opt is not None)
    total, n = 0.0, 0
    with torch.set_grad_enabled(opt is not None):
        for step, (x, y) in enumerate(loader):
            loss = nn.functional.mse_loss(model(x), y)
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                opt.step()
                if step % 10 == 0:
                    print(f"    step {step:3d}  mse {loss.item():.5f}", flush=True)
            total += loss.item() * len(x)
            n += len(x)
    return total / n


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", required=True)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.manual_seed(7)

    path = os.path.join(args.data, "era_basin.h5")
    train_ds = BasinDataset(path, range(0, 480, 2))
    valid_ds = BasinDataset(path, range(490, 570, 2))
    train_dl = DataLoader(train_ds, batch_size=args.batch, shuffle=True, drop_last=True)
    valid_dl = DataLoader(valid_ds, batch_size=args.batch)

    model = SmallUNet(len(VARIABLES) * HISTORY)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    start = time.perf_counter()
    for epoch in range(args.epochs):
        tr = run_epoch(model, train_dl, opt)
        va = run_epoch(model, valid_dl)
        print(f"epoch {epoch + 1}/{args.epochs}  train {tr:.5f}  valid {va:.5f}", flush=True)
    print(f"trained {time.perf_counter() - start:.2f}")
