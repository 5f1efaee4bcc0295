"""Road scene segmentation, small encoder/decoder, 12 classes.

Masks come from the labelling tool as colour PNGs.
First run: python train.py --data DIR --prepare
"""
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

DATA = Path(sys.argv[sys.argv.index("--data") + 1])
N_IMAGES = 200
MAX_STEPS = int(os.environ.get("STEPS", 66))
NUM_WORKERS = int(os.environ.get("NUM_WORKERS", "0"))
MASK_READER = os.environ.get("MASK_READER", "colours")
SCORER = os.environ.get("SCORER", "pixels")
W, H = 512, 384          # as photographed
TW, TH = 320, 240        # as trained
BATCH_SIZE = 3

PALETTE = np.array([
    (0, 0, 0), (128, 64, 128), (244, 35, 232), (70, 70, 70), (102, 102, 156), (190, 153, 153),
    (153, 153, 153), (250, 170, 30), (220, 220, 0), (107, 142, 35), (70, 130, 180), (220, 20, 60)], dtype=np.uint8)
NUM_CLASSES = len(PALETTE)


def prepare():
    (DATA / "img").mkdir(parents=True, exist_ok=True)
    (DATA / "mask").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(11)
    yy, xx = np.mgrid[0:H, 0:W]
    for n in range(N_IMAGES):
        lab = np.zeros((H, W), dtype=np.uint8)
        lab[:150] = 10
        lab[260:] = 1
        for _ in range(24):
            cx, cy = rng.integers(0, W), rng.integers(60, H)
            rx, ry = rng.integers(12, 70), rng.integers(12, 60)
            lab[((xx - cx) / rx) ** 2 + ((yy - cy) / ry) ** 2 < 1] = rng.integers(0, NUM_CLASSES)
        img = PALETTE[lab].astype(np.int16) // 2 + 50 + rng.integers(-12, 13, (H, W, 3))
        Image.fromarray(img.clip(0, 255).astype(np.uint8)).save(DATA / "img" / f"{n:04d}.png", compress_level=3)
        Image.fromarray(PALETTE[lab]).save(DATA / "mask" / f"{n:04d}.png")


PACKED = np.zeros(1 << 24, dtype=np.uint8) if MASK_READER == "packed" else None
if PACKED is not None:
    for c, (r, g, b) in enumerate(PALETTE.astype(int)):
        PACKED[(r << 16) | (g << 8) | b] = c


class RoadScenes(Dataset):
    def __init__(self, root):
        self.images = sorted((root / "img").glob("*.png"))
        self.masks = sorted((root / "mask").glob("*.png"))

    def __len__(self):
        return len(self.images)

    def mask_to_labels(self, mask):
        if PACKED is not None:
            m = mask.astype(np.int32)
            return PACKED[(m[..., 0] << 16) | (m[..., 1] << 8) | m[..., 2]].astype(np.int64)
        labels = np.zeros(mask.shape[:2], dtype=np.int64)
        for c, colour in enumerate(PALETTE):
            labels[np.all(mask == colour, axis=-1)] = c
        return labels

    def __getitem__(self, i):
        img = Image.open(self.images[i]).convert("RGB").resize((TW, TH), Image.BILINEAR)
        mask = np.array(Image.open(self.masks[i]).convert("RGB"))
        labels = self.mask_to_labels(mask)
        labels = np.array(Image.fromarray(labels.astype(np.uint8)).resize((TW, TH), Image.NEAREST), dtype=np.int64)
        x = np.asarray(img, dtype=np.float32).transpose(2, 0, 1) / 255.0
        if np.random.rand() < 0.5:
            x, labels = x[:, :, ::-1].copy(), labels[:, ::-1].copy()
        return torch.from_numpy(x), torch.from_numpy(labels)


class SegNet(nn.Module):
    def __init__(self):
        super().__init__()
        def block(i, o, s):
            return nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))
        self.e1, self.e2, self.e3 = block(3, 16, 2), block(16, 32, 2), block(32, 48, 2)
        self.mid = block(48, 48, 1)
        self.d2, self.d1 = block(48 + 32, 32, 1), block(32 + 16, 16, 1)
        self.out = nn.Conv2d(16, NUM_CLASSES, 1)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(a)
        c = self.mid(self.e3(b))
        y = self.d2(torch.cat([self.up(c), b], 1))
        y = self.d1(torch.cat([self.up(y), a], 1))
        return self.up(self.out(y))


class RunningIoU:
    """Mean IoU over the current batch, shown on the progress line."""

    def __call__(self, logits, target):
        pred = logits.detach().argmax(1).numpy().ravel()
        true = target.numpy().ravel()
        if SCORER == "bincount":
            cm = np.bincount(true * NUM_CLASSES + pred, minlength=NUM_CLASSES ** 2).reshape(NUM_CLASSES, NUM_CLASSES)
        else:
            cm = np.zeros((NUM_CLASSES, NUM_CLASSES), dtype=np.int64)
            for t, p in zip(true, pred):
                cm[t, p] += 1
        inter = np.diag(cm)
        union = cm.sum(0) + cm.sum(1) - inter
        return float((inter[union > 0] / union[union > 0]).mean())


def train():
    torch.manual_seed(1)
    np.random.seed(1)
    loader = DataLoader(RoadScenes(DATA), batch_size=BATCH_SIZE, shuffle=True, drop_last=True,
                        num_workers=NUM_WORKERS, persistent_workers=NUM_WORKERS > 0)
    net, score = SegNet(), RunningIoU()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    step, it = 0, iter(loader)
    step_s = []
    while step < MAX_STEPS:
        tic = time.perf_counter()
        try:
            x, y = next(it)
        except StopIteration:
            it = iter(loader)
            x, y = next(it)
        optimizer.zero_grad()
        logits = net(x)
        loss = criterion(logits, y)
        loss.backward()
        optimizer.step()
        miou = score(logits, y)
        step += 1
        print(f"\r[{step}/{MAX_STEPS}] loss={loss.item():.3f} mIoU={miou:.3f}", end="", flush=True)
        step_s.append(time.perf_counter() - tic)
    print()
    print(f"trained {sum(step_s):.2f}")


if __name__ == "__main__":
    prepare() if "--prepare" in sys.argv else train()
