"""Denoising diffusion on 32x32 textures with a small U-Net.

python train.py --data DIR --prepare
python train.py --data DIR
"""
from __future__ import annotations

import math
import os
import sys
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset



@dataclass
class Config:
    path: str = os.path.join(sys.argv[sys.argv.index("--data") + 1], "textures.npy")
    images: int = 8192
    steps: int = int(os.environ.get("STEPS", "105"))
    batch: int = 32
    width: int = 32
    timesteps: int = 1000
    lr: float = 3e-4
    ema: float = 0.995
    workers: int = int(os.environ.get("WORKERS", "0"))
    threads: int = int(os.environ.get("THREADS", "0"))
    report: int = int(os.environ.get("REPORT", "1"))
    preload: bool = os.environ.get("PRELOAD", "0") == "1"


def prepare(cfg: Config) -> None:
    os.makedirs(os.path.dirname(cfg.path), exist_ok=True)
    rng = np.random.default_rng(4)
    yy, xx = np.mgrid[0:32, 0:32] / 32
    out = np.empty((cfg.images, 32, 32, 3), np.uint8)
    for i in range(cfg.images):
        fx, fy, ph = rng.uniform(1, 6), rng.uniform(1, 6), rng.uniform(0, 6.28)
        wave = 0.5 + 0.5 * np.sin(2 * np.pi * (fx * xx + fy * yy) + ph)
        out[i] = (255 * wave[..., None] * rng.uniform(0.3, 1, 3)).astype(np.uint8)
    np.save(cfg.path, out)


class Textures(Dataset):
    def __init__(self, path: str, preload: bool):
        self.data = np.load(path, mmap_mode=None if preload else "r")

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> Tensor:
        x = torch.from_numpy(np.array(self.data[i])).permute(2, 0, 1).float().div(127.5).sub(1)
        return x.flip(2) if torch.rand(()) < 0.5 else x


class ResBlock(nn.Module):
    def __init__(self, i: int, o: int, emb: int):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(8, i), nn.Conv2d(i, o, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(8, o), nn.Conv2d(o, o, 3, padding=1)
        self.emb = nn.Linear(emb, o)
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x: Tensor, e: Tensor) -> Tensor:
        h = self.c1(F.silu(self.n1(x))) + self.emb(e)[:, :, None, None]
        return self.c2(F.silu(self.n2(h))) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, w: int):
        super().__init__()
        e = w * 4
        self.w = w
        self.time = nn.Sequential(nn.Linear(w, e), nn.SiLU(), nn.Linear(e, e))
        self.inp = nn.Conv2d(3, w, 3, padding=1)
        self.d1, self.d2 = ResBlock(w, w, e), ResBlock(w, 2 * w, e)
        self.p1, self.p2 = nn.Conv2d(w, w, 3, 2, 1), nn.Conv2d(2 * w, 2 * w, 3, 2, 1)
        self.m1, self.m2 = ResBlock(2 * w, 3 * w, e), ResBlock(3 * w, 2 * w, e)
        self.u2, self.u1 = ResBlock(4 * w, w, e), ResBlock(2 * w, w, e)
        self.out = nn.Sequential(nn.GroupNorm(8, w), nn.SiLU(), nn.Conv2d(w, 3, 3, padding=1))

    def embed(self, t: Tensor) -> Tensor:
        half = self.w // 2
        f = torch.exp(-math.log(10000) * torch.arange(half) / half)
        a = t[:, None].float() * f
        return self.time(torch.cat([a.sin(), a.cos()], 1))

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        e = self.embed(t)
        a = self.d1(self.inp(x), e)
        b = self.d2(self.p1(a), e)
        m = self.m2(self.m1(self.p2(b), e), e)
        y = self.u2(torch.cat([F.interpolate(m, scale_factor=2.0), b], 1), e)
        y = self.u1(torch.cat([F.interpolate(y, scale_factor=2.0), a], 1), e)
        return self.out(y)


def cycle(loader):
    while True:
        for batch in loader:
            yield batch


def train(cfg: Config) -> None:
    if cfg.threads:
        torch.set_num_threads(cfg.threads)
    torch.manual_seed(7)
    net = UNet(cfg.width)
    shadow = [p.detach().clone() for p in net.parameters()]
    opt = torch.optim.AdamW(net.parameters(), lr=cfg.lr)
    alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.02, cfg.timesteps), 0)
    loader = DataLoader(Textures(cfg.path, cfg.preload), batch_size=cfg.batch, shuffle=True, drop_last=True,
                        num_workers=cfg.workers, persistent_workers=cfg.workers > 0)
    stream = cycle(loader)
    took: list[float] = []
    for step in range(cfg.steps):
        start = time.perf_counter()
        x0 = next(stream)
        t = torch.randint(0, cfg.timesteps, (len(x0),))
        noise = torch.randn_like(x0)
        ab = alpha_bar[t].view(-1, 1, 1, 1)
        loss = F.mse_loss(net(ab.sqrt() * x0 + (1 - ab).sqrt() * noise, t), noise)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        with torch.no_grad():
            torch._foreach_lerp_(shadow, list(net.parameters()), 1 - cfg.ema)
        if step % cfg.report == 0:
            print(f"{step:05d} mse={loss.item():.4f}", flush=True)
        took.append(time.perf_counter() - start)
    print(f"trained {sum(took):.2f}")


if __name__ == "__main__":
    config = Config()
    prepare(config) if "--prepare" in sys.argv else train(config)
