"""Tiny single-stage detector on photos of coloured blocks.

Usage:
    python train.py --data DIR --prepare # writes the photo folder once
    python train.py --data DIR           # trains

Each training sample is a 2x2 mosaic of four photos with random zoom, flip and
brightness; boxes are assigned to the cells of an 8x8 grid.
"""
import argparse
import json
import os
import random
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch.utils.data import DataLoader, Dataset

ROOT = Path(sys.argv[sys.argv.index("--data") + 1])
N_PHOTOS = 320
STEPS = int(os.environ.get("STEPS", "70"))
WORKERS = int(os.environ.get("WORKERS", "0"))
PHOTO_DIR = os.environ.get("PHOTO_DIR", "photos")
DRAFT = int(os.environ.get("DRAFT", "0"))
PIN = os.environ.get("PIN", "0") == "1"
BATCH = 4
SIDE = 192
GRID = 8
COLOURS = [(220, 40, 40), (40, 200, 60), (50, 70, 230), (230, 200, 40), (200, 60, 210)]


def prepare():
    rng = np.random.default_rng(3)
    pyr = random.Random(3)
    big, small = ROOT / "photos", ROOT / "photos_320"
    big.mkdir(parents=True, exist_ok=True)
    small.mkdir(parents=True, exist_ok=True)
    labels = {}
    for i in range(N_PHOTOS):
        base = rng.integers(30, 200, (15, 20, 3), dtype=np.uint8)
        im = Image.fromarray(base).resize((1280, 960), Image.BICUBIC)
        grain = rng.integers(-14, 15, (480, 640, 1), dtype=np.int16)
        grain = np.repeat(np.repeat(grain, 2, 0), 2, 1)
        im = Image.fromarray(np.clip(np.asarray(im, dtype=np.int16) + grain, 0, 255).astype(np.uint8))
        draw = ImageDraw.Draw(im)
        boxes = []
        for _ in range(pyr.randint(1, 4)):
            c = pyr.randrange(len(COLOURS))
            w, h = pyr.randint(120, 420), pyr.randint(120, 420)
            x, y = pyr.randint(0, 1280 - w), pyr.randint(0, 960 - h)
            draw.rectangle([x, y, x + w, y + h], fill=COLOURS[c], outline=(0, 0, 0), width=4)
            boxes.append([(x + w / 2) / 1280, (y + h / 2) / 960, w / 1280, h / 960, c])
        name = f"{i:05d}.jpg"
        im.save(big / name, quality=92)
        im.resize((320, 240), Image.BILINEAR).save(small / name, quality=92)
        labels[name] = boxes
    (ROOT / "boxes.json").write_text(json.dumps(labels))


class MosaicDataset(Dataset):
    def __init__(self, folder, label_file):
        self.folder = folder
        self.labels = json.loads(label_file.read_text())
        self.names = sorted(self.labels)

    def __len__(self):
        return len(self.names)

    def load(self, name):
        im = Image.open(self.folder / name)
        if DRAFT:
            im.draft("RGB", (DRAFT, DRAFT))
        return im.convert("RGB")

    def __getitem__(self, i):
        half = SIDE // 2
        canvas = np.zeros((SIDE, SIDE, 3), dtype=np.float32)
        boxes = []
        picks = [self.names[i]] + random.choices(self.names, k=3)
        for q, name in enumerate(picks):
            im = self.load(name)
            flip = random.random() < 0.5
            zoom = random.uniform(0.75, 1.0)
            w, h = im.size
            cw, ch = int(w * zoom), int(h * zoom)
            x0, y0 = random.randint(0, w - cw), random.randint(0, h - ch)
            tile = im.resize((half, half), Image.BILINEAR, box=(x0, y0, x0 + cw, y0 + ch))
            tile = np.asarray(tile, dtype=np.float32) / 255.0
            if flip:
                tile = tile[:, ::-1]
            tile = np.clip(tile * random.uniform(0.7, 1.3), 0, 1)
            oy, ox = divmod(q, 2)
            canvas[oy * half:(oy + 1) * half, ox * half:(ox + 1) * half] = tile
            for cx, cy, bw, bh, c in self.labels[name]:
                cx, cy = (cx * w - x0) / cw, (cy * h - y0) / ch
                if not (0 < cx < 1 and 0 < cy < 1):
                    continue
                if flip:
                    cx = 1 - cx
                boxes.append(((cx + ox) / 2, (cy + oy) / 2, bw * w / cw / 2, bh * h / ch / 2, c))
        target = np.zeros((6, GRID, GRID), dtype=np.float32)
        for cx, cy, bw, bh, c in boxes:
            gx, gy = min(int(cx * GRID), GRID - 1), min(int(cy * GRID), GRID - 1)
            target[:, gy, gx] = (1.0, cx * GRID - gx, cy * GRID - gy, bw, bh, c)
        return torch.from_numpy(canvas).permute(2, 0, 1).contiguous(), torch.from_numpy(target)


def conv(i, o, s=2):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.LeakyReLU(0.1))


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(conv(3, 16), conv(16, 32), conv(32, 64), conv(64, 96, 1), conv(96, 128),
                                  nn.AdaptiveAvgPool2d(GRID))
        self.head = nn.Conv2d(128, 5 + len(COLOURS), 1)

    def forward(self, x):
        return self.head(self.body(x))


def detection_loss(out, tgt):
    has = tgt[:, 0]
    obj = F.binary_cross_entropy_with_logits(out[:, 0], has)
    box = (F.smooth_l1_loss(out[:, 1:5].sigmoid(), tgt[:, 1:5], reduction="none").sum(1) * has).sum()
    cls = (F.cross_entropy(out[:, 5:], tgt[:, 5].long(), reduction="none") * has).sum()
    n = has.sum().clamp(min=1)
    return obj + (5 * box + cls) / n


def forever(loader):
    while True:
        yield from loader


def main():
    torch.manual_seed(0)
    random.seed(0)
    data = MosaicDataset(ROOT / PHOTO_DIR, ROOT / "boxes.json")
    loader = DataLoader(data, batch_size=BATCH, shuffle=True, drop_last=True, num_workers=WORKERS,
                        pin_memory=PIN, persistent_workers=WORKERS > 0)
    model = Detector()
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
    batches = forever(loader)
    marks = []
    for step in range(STEPS):
        t0 = time.perf_counter()
        images, targets = next(batches)
        loss = detection_loss(model(images), targets)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 10 == 0:
            print(f"step {step:4d}  loss {loss.item():.4f}", flush=True)
        marks.append(time.perf_counter() - t0)
    print(f"trained {sum(marks):.2f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--data")
    ap.add_argument("--prepare", action="store_true")
    if ap.parse_args().prepare:
        prepare()
    else:
        main()
