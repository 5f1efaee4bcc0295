"""Stroke recognition from the pool camera: a small 3D CNN on short windows of the clips."""
import argparse
import csv
import os
import random
import time

import cv2
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

STROKES = ["freestyle", "butterfly", "backstroke", "breaststroke"]
SIZE = 80
T = 8        # frames given to the network
STRIDE = 6   # one of every STRIDE frames is used


class StrokeWindows(Dataset):
    def __init__(self, root, split, windows_per_clip, train):
        self.root = root
        self.train = train
        self.items = []
        rng = random.Random(3)
        with open(os.path.join(root, "annotations.csv")) as f:
            for row in csv.DictReader(f):
                if row["split"] != split:
                    continue
                last = int(row["frames"]) - T * STRIDE
                for _ in range(windows_per_clip):
                    self.items.append((row["file"], rng.randint(0, last), int(row["stroke"])))

    def __len__(self):
        return len(self.items)

    def load_window(self, name, start):
        cap = cv2.VideoCapture(os.path.join(self.root, "clips", name))
        cap.set(cv2.CAP_PROP_POS_FRAMES, start)
        frames = []
        for i in range((T - 1) * STRIDE + 1):
            ok, frame = cap.read()
            if not ok:
                break
            if i % STRIDE == 0:
                frame = cv2.resize(frame, (SIZE, SIZE), interpolation=cv2.INTER_AREA)
                frames.append(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
        cap.release()
        while len(frames) < T:
            frames.append(frames[-1])
        return np.stack(frames)

    def __getitem__(self, i):
        name, start, label = self.items[i]
        clip = self.load_window(name, start)
        x = torch.from_numpy(clip).permute(3, 0, 1, 2).float().div_(255.0)
        if self.train and random.random() < 0.5:
            x = x.flip(-1)
        return (x - 0.45) / 0.22, label


class StrokeNet(nn.Module):
    def __init__(self, width=12, classes=4):
        super().__init__()
        self.stem = nn.Conv3d(3, width, (3, 5, 5), stride=(1, 2, 2), padding=(1, 2, 2))
        self.b1 = nn.Conv3d(width, 2 * width, 3, stride=(1, 2, 2), padding=1)
        self.b2 = nn.Conv3d(2 * width, 4 * width, 3, stride=2, padding=1)
        self.n0, self.n1, self.n2 = (nn.BatchNorm3d(c) for c in (width, 2 * width, 4 * width))
        self.head = nn.Linear(4 * width, classes)

    def forward(self, x):
        x = F.relu(self.n0(self.stem(x)))
        x = F.relu(self.n1(self.b1(x)))
        x = F.relu(self.n2(self.b2(x)))
        return self.head(x.mean(dim=(2, 3, 4)))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hits = total = 0
    for x, y in loader:
        hits += (model(x).argmax(1) == y).sum().item()
        total += len(y)
    model.train()
    return hits / total


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data", required=True)
    p.add_argument("--epochs", type=int, default=7)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--lr", type=float, default=2e-3)
    args = p.parse_args()

    random.seed(0)
    torch.manual_seed(0)
    train_set = StrokeWindows(args.data, "train", windows_per_clip=4, train=True)
    val_set = StrokeWindows(args.data, "val", windows_per_clip=2, train=False)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=args.batch_size)
    model = StrokeNet()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    print(f"{len(train_set)} training windows, {len(val_set)} validation windows")

    t0 = time.perf_counter()
    for epoch in range(args.epochs):
        running = 0.0
        for x, y in train_loader:
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item() * len(y)
        acc = evaluate(model, val_loader)
        print(f"epoch {epoch}: loss {running / len(train_set):.4f}  val acc {acc:.3f}")
    print(f"trained {time.perf_counter() - t0:.2f}")


if __name__ == "__main__":
    main()
