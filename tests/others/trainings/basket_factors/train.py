"""Neural matrix factorisation for the shop's "you may also like" box."""
import argparse
import pathlib
import time

import numpy as np
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=pathlib.Path, required=True)
parser.add_argument("--dim", type=int, default=48)
parser.add_argument("--batch", type=int, default=4096)
parser.add_argument("--steps", type=int, default=260)
parser.add_argument("--lr", type=float, default=2e-3)


class Shop:
    """The purchase log held in memory, with batches drawn by index."""

    def __init__(self, path, seed=0):
        log = torch.from_numpy(np.load(path))
        gen = torch.Generator().manual_seed(seed)
        log = log[torch.randperm(len(log), generator=gen)]
        self.users = 240_000
        self.items = 160_000
        self.val, self.train = log[:20_000], log[20_000:]

    def batches(self, size, steps):
        for i in range(steps):
            lo = (i * size) % (len(self.train) - size)
            rows = self.train[lo:lo + size]
            yield rows[:, 0], rows[:, 1], rows[:, 2].float()


class NeuMF(nn.Module):
    def __init__(self, users, items, dim):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim)
        nn.init.normal_(self.user.weight, std=0.05)
        nn.init.normal_(self.item.weight, std=0.05)
        self.mlp = nn.Sequential(nn.Linear(3 * dim, 128), nn.ReLU(),
                                 nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, u, i):
        u, i = self.user(u), self.item(i)
        return self.mlp(torch.cat([u, i, u * i], dim=1)).squeeze(1)


def auc(score, label):
    order = score.argsort()
    rank = torch.empty(len(score), dtype=torch.float64)
    rank[order] = torch.arange(1, len(score) + 1, dtype=torch.float64)
    pos = label > 0.5
    n1 = pos.sum().double()
    n0 = len(label) - n1
    return ((rank[pos].sum() - n1 * (n1 + 1) / 2) / (n0 * n1)).item()


def train(args):
    torch.manual_seed(13)
    shop = Shop(args.data / "log.npy")
    model = NeuMF(shop.users, shop.items, args.dim)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.BCEWithLogitsLoss()
    print(sum(p.numel() for p in model.parameters()) / 1e6, "M parameters")

    clock = time.perf_counter()
    smooth = None
    for step, (u, i, y) in enumerate(shop.batches(args.batch, args.steps), 1):
        optimizer.zero_grad()
        loss = criterion(model(u, i), y)
        loss.backward()
        optimizer.step()
        value = loss.item()
        smooth = value if smooth is None else 0.95 * smooth + 0.05 * value
        if step % 10 == 0:
            print(f"{step:5d} loss {smooth:.4f}", flush=True)
        if step % 65 == 0:
            model.eval()
            with torch.no_grad():
                score = torch.cat([model(r[:, 0], r[:, 1]) for r in shop.val.split(args.batch)])
            print(f"      validation AUC {auc(score, shop.val[:, 2].float()):.4f}", flush=True)
            model.train()
    return time.perf_counter() - clock


if __name__ == "__main__":
    seconds = train(parser.parse_args())
    print(f"trained {seconds:.2f}")
