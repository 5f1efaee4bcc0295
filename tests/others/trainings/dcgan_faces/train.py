"""DCGAN on 32x32 avatars.  `--prepare` writes avatars.npy; runs/ gets curves and sample sheets."""
import argparse
import json
import os
import queue
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--data", type=Path, required=True)
p.add_argument("--prepare", action="store_true")
p.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", "64")))
p.add_argument("--batch", type=int, default=48)
p.add_argument("--nz", type=int, default=64)
p.add_argument("--width", type=int, default=24)
p.add_argument("--track-every", type=int, default=int(os.environ.get("TRACK_EVERY", "1")))
p.add_argument("--png-level", type=int, default=int(os.environ.get("PNG_LEVEL", "6")))
p.add_argument("--background", type=int, default=int(os.environ.get("BACKGROUND", "0")))
p.add_argument("--keep-float", type=int, default=int(os.environ.get("KEEP_FLOAT", "0")))
args = p.parse_args()
BASE = args.data
RUN = BASE / "runs"


def prepare():
    BASE.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    n = 6000
    yy, xx = np.mgrid[0:32, 0:32] / 31.0
    out = np.empty((n, 3, 32, 32), np.uint8)
    for i in range(n):
        face = ((xx - 0.5) / rng.uniform(.25, .42)) ** 2 + ((yy - .52) / rng.uniform(.33, .46)) ** 2 < 1
        eye = rng.uniform(.1, .18)
        eyes = (((np.abs(xx - .5) - eye) ** 2 + (yy - .42) ** 2) < .003)
        mouth = (np.abs(yy - .7) < .03) & (np.abs(xx - .5) < rng.uniform(.08, .2))
        img = np.ones((3, 32, 32)) * rng.uniform(.1, .9, (3, 1, 1))
        skin = np.array([.9, .7, .55]) * rng.uniform(.5, 1.05)
        for c in range(3):
            img[c][face] = skin[c]
            img[c][eyes] = .05
            img[c][mouth] = (.7, .1, .1)[c]
        out[i] = np.clip(img * 255 + rng.normal(0, 4, img.shape), 0, 255)
    np.save(BASE / "avatars.npy", out)


class Generator(nn.Module):
    def __init__(self, nz, w):
        super().__init__()
        def up(i, o):
            return [nn.ConvTranspose2d(i, o, 4, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(True)]
        self.net = nn.Sequential(nn.ConvTranspose2d(nz, w * 4, 4, 1, 0, bias=False), nn.BatchNorm2d(w * 4), nn.ReLU(True),
                                 *up(w * 4, w * 2), *up(w * 2, w), nn.ConvTranspose2d(w, 3, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self, w):
        super().__init__()
        def down(i, o):
            return [nn.Conv2d(i, o, 4, 2, 1, bias=False), nn.BatchNorm2d(o), nn.LeakyReLU(.2, True)]
        self.net = nn.Sequential(nn.Conv2d(3, w, 4, 2, 1), nn.LeakyReLU(.2, True), *down(w, w * 2), *down(w * 2, w * 4),
                                 nn.Conv2d(w * 4, 1, 4, 1, 0))

    def forward(self, x):
        return self.net(x).flatten()


class Tracker:
    """Curves, weight histograms and an 8x8 sheet of samples (for the training movie)."""

    def __init__(self, folder, fixed):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder, self.fixed = folder, fixed
        self.curves = open(folder / "curves.jsonl", "a")
        self.q = None
        if args.background:
            self.q = queue.Queue(8)
            self.thread = threading.Thread(target=self._work)
            self.thread.start()

    def _work(self):
        while (job := self.q.get()) is not None:
            self._write(*job)

    def _write(self, step, row, sheet):
        self.curves.write(json.dumps(row) + "\n")
        self.curves.flush()
        img = Image.fromarray(sheet).resize((8 * 120, 8 * 120), Image.BICUBIC)
        img.save(self.folder / f"sheet_{step:06d}.png", compress_level=args.png_level)

    def step(self, step, losses, nets):
        row = {"step": step, **losses}
        for tag, net in nets.items():
            for name, prm in net.named_parameters():
                for kind, t in (("w", prm.detach()), ("g", prm.grad)):
                    lo, hi = float(t.min()), float(t.max())
                    row[f"{tag}/{name}/{kind}"] = [lo, hi] + torch.histc(t.float(), 64, lo, hi + 1e-12).tolist()
        with torch.no_grad():
            nets["G"].eval()
            x = nets["G"](self.fixed)
            nets["G"].train()
        x = ((x.clamp(-1, 1) + 1) * 127.5).to(torch.uint8)
        sheet = x.view(8, 8, 3, 32, 32).permute(0, 3, 1, 4, 2).reshape(256, 256, 3).numpy()
        if self.q is not None:
            self.q.put((step, row, sheet))
        else:
            self._write(step, row, sheet)

    def close(self):
        if self.q is not None:
            self.q.put(None)
            self.thread.join()
        self.curves.close()


def main():
    torch.manual_seed(0)
    pixels = torch.from_numpy(np.load(BASE / "avatars.npy"))
    if args.keep_float:
        pixels = pixels.float().div_(127.5).sub_(1)
    G, D = Generator(args.nz, args.width), Discriminator(args.width)
    og = torch.optim.Adam(G.parameters(), 2e-4, betas=(.5, .999))
    od = torch.optim.Adam(D.parameters(), 2e-4, betas=(.5, .999))
    bce = nn.BCEWithLogitsLoss()
    tracker = Tracker(RUN, torch.randn(64, args.nz, 1, 1))
    ones, zeros = torch.ones(args.batch), torch.zeros(args.batch)
    clock = []
    for step in range(args.steps):
        t0 = time.perf_counter()
        pick = torch.randint(0, len(pixels), (args.batch,))
        real = pixels[pick]
        if not args.keep_float:
            real = real.float() / 127.5 - 1
        fake = G(torch.randn(args.batch, args.nz, 1, 1))
        loss_d = bce(D(real), ones) + bce(D(fake.detach()), zeros)
        od.zero_grad(); loss_d.backward(); od.step()
        loss_g = bce(D(fake), ones)
        og.zero_grad(); loss_g.backward(); og.step()
        if step % args.track_every == 0:
            tracker.step(step, {"D": loss_d.item(), "G": loss_g.item()}, {"G": G, "D": D})
        if step % 20 == 0:
            print(f"{step}: D {loss_d.item():.3f} G {loss_g.item():.3f}", flush=True)
        clock.append(time.perf_counter() - t0)
    t0 = time.perf_counter()
    tracker.close()
    tail = time.perf_counter() - t0
    print(f"trained {sum(clock) + tail:.2f}")


if args.prepare:
    prepare()
elif __name__ == "__main__":
    main()
