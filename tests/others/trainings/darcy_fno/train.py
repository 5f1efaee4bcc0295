"""Fourier neural operator for Darcy flow (permeability -> pressure)."""
import argparse
import json
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class SpectralConv2d(nn.Module):
    def __init__(self, cin, cout, modes):
        super().__init__()
        self.modes = modes
        scale = 1.0 / (cin * cout)
        self.w = nn.Parameter(scale * torch.randn(2, cin, cout, modes, modes, dtype=torch.cfloat))

    def forward(self, x):
        b, _, h, w = x.shape
        m = self.modes
        xf = torch.fft.rfft2(x)
        out = torch.zeros(b, self.w.shape[2], h, w // 2 + 1, dtype=torch.cfloat, device=x.device)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", xf[:, :, :m, :m], self.w[0])
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", xf[:, :, -m:, :m], self.w[1])
        return torch.fft.irfft2(out, s=(h, w))


class FNO2d(nn.Module):
    def __init__(self, width=24, modes=12, depth=4):
        super().__init__()
        self.lift = nn.Conv2d(3, width, 1)
        self.spectral = nn.ModuleList(SpectralConv2d(width, width, modes) for _ in range(depth))
        self.local = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(depth))
        self.project = nn.Sequential(nn.Conv2d(width, 64, 1), nn.GELU(), nn.Conv2d(64, 1, 1))

    def forward(self, a, grid):
        x = self.lift(torch.cat([a, grid.expand(len(a), -1, -1, -1)], dim=1))
        for spectral, local in zip(self.spectral, self.local):
            x = F.gelu(spectral(x) + local(x))
        return self.project(x)


def relative_l2(pred, true):
    diff = (pred - true).flatten(1).norm(dim=1)
    return (diff / true.flatten(1).norm(dim=1)).mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", required=True)
    ap.add_argument("--epochs", type=int, default=7)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.manual_seed(0)

    with np.load(os.path.join(args.data, "darcy.npz")) as f:
        a, u = torch.from_numpy(f["a"]), torch.from_numpy(f["u"])
    train_loader = DataLoader(TensorDataset(a[:512], u[:512]), args.batch_size, shuffle=True)
    test_loader = DataLoader(TensorDataset(a[512:576], u[512:576]), args.batch_size)
    s = torch.linspace(0, 1, a.shape[-1])
    grid = torch.stack(torch.meshgrid(s, s, indexing="ij"))[None]

    model = FNO2d()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    log = open(os.path.join(args.data, "log.jsonl"), "w")
    best = float("inf")

    t0 = time.perf_counter()
    for epoch in range(args.epochs):
        model.train()
        for step, (x, y) in enumerate(train_loader):
            loss = relative_l2(model(x, grid), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            log.write(json.dumps({"epoch": epoch, "step": step, "loss": loss.item()}) + "\n")
        sched.step()
        model.eval()
        with torch.no_grad():
            test = np.mean([relative_l2(model(x, grid), y).item() for x, y in test_loader])
        if test < best:
            best = test
            torch.save(model.state_dict(), os.path.join(args.data, "fno_best.pt"))
        print(f"epoch {epoch} train {loss.item():.4f} test {test:.4f}", flush=True)
    log.close()
    print(f"trained {time.perf_counter() - t0:.2f}")


if __name__ == "__main__":
    main()
