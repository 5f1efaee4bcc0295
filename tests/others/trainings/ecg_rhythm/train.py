"""Rhythm classification of 2-lead ECG strips with a 1-D residual network."""
import argparse
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2024)
torch.set_num_threads(1)  # from the job template of the shared login node
RHYTHMS = ("sinus", "tachycardia", "fibrillation", "ischaemia")


class ResBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.c1 = nn.Conv1d(cin, cout, 9, stride, 4, bias=False)
        self.c2 = nn.Conv1d(cout, cout, 9, 1, 4, bias=False)
        self.b1, self.b2 = nn.BatchNorm1d(cout), nn.BatchNorm1d(cout)
        self.skip = nn.Conv1d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.b1(self.c1(x)))
        return F.relu(self.b2(self.c2(y)) + self.skip(x))


class EcgNet(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.stem = nn.Conv1d(2, width, 15, 2, 7)
        self.blocks = nn.Sequential(ResBlock(width, width, 1), ResBlock(width, 2 * width, 2),
                                    ResBlock(2 * width, 2 * width, 1), ResBlock(2 * width, 4 * width, 2))
        self.fc = nn.Linear(4 * width, len(RHYTHMS))

    def forward(self, x):
        return self.fc(self.blocks(F.relu(self.stem(x))).mean(-1))


def load(folder):
    with np.load(os.path.join(folder, "strips.npz")) as f:
        x, y = torch.from_numpy(f["x"]), torch.from_numpy(f["y"])
    x = (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)
    perm = torch.randperm(len(y))
    x, y = x[perm], y[perm]
    return (x[400:1400], y[400:1400]), (x[:200], y[:200])


def confusion(model, x, y):
    model.eval()
    table = torch.zeros(len(RHYTHMS), len(RHYTHMS), dtype=torch.long)
    with torch.no_grad():
        for xb, yb in zip(x.split(64), y.split(64)):
            for t, p in zip(yb, model(xb).argmax(1)):
                table[t, p] += 1
    model.train()
    return table


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", required=True)
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--batch", type=int, default=50)
    args = ap.parse_args()
    (x, y), (xv, yv) = load(args.data)
    model = EcgNet()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    steps = args.epochs * (len(x) // args.batch)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 3e-3, total_steps=steps)

    t0 = time.perf_counter()
    for epoch in range(args.epochs):
        perm = torch.randperm(len(x))
        losses = []
        for i in range(0, len(x) - args.batch + 1, args.batch):
            idx = perm[i:i + args.batch]
            xb = x[idx] + 0.02 * torch.randn(len(idx), 2, x.shape[-1])
            loss = F.cross_entropy(model(xb), y[idx], label_smoothing=0.05)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            losses.append(loss.item())
        table = confusion(model, xv, yv)
        recall = table.diag() / table.sum(1).clamp(min=1)
        print(f"epoch {epoch} loss {np.mean(losses):.4f} recall " +
              " ".join(f"{n}={r:.2f}" for n, r in zip(RHYTHMS, recall.tolist())), flush=True)
    print(f"trained {time.perf_counter() - t0:.2f}")


if __name__ == "__main__":
    main()
