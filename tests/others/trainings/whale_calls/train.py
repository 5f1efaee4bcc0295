"""Right-whale up-call detector on hydrophone snippets.

Runs on the lab's Windows desktop and on the Linux server alike, hence 'spawn' everywhere.
"""
import argparse
import os
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Snippets(Dataset):
    def __init__(self, wav, labels, augment):
        self.wav, self.labels, self.augment = wav, labels, augment
        self.window = np.hanning(256).astype(np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        x = self.wav[i].astype(np.float32) / 32768.0
        if self.augment:
            x = np.roll(x, np.random.randint(-400, 400))
        frames = np.lib.stride_tricks.sliding_window_view(x, 256)[::64] * self.window
        spec = np.abs(np.fft.rfft(frames, axis=1))[:, :64].astype(np.float32)
        return torch.from_numpy(np.log1p(50 * spec))[None], int(self.labels[i])


class CallNet(nn.Module):
    def __init__(self):
        super().__init__()
        chans = [1, 16, 32, 48]
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in zip(chans, chans[1:]))
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for b in chans[1:])
        self.fc = nn.Linear(chans[-1], 2)

    def forward(self, x):
        for conv, norm in zip(self.convs, self.norms):
            x = nn.functional.max_pool2d(torch.relu(norm(conv(x))), 2)
        return self.fc(x.mean(dim=(2, 3)))


def make_loader(dataset, args, shuffle):
    return DataLoader(dataset, batch_size=args.batch_size, shuffle=shuffle,
                      num_workers=args.workers, multiprocessing_context="spawn")


def train_one_epoch(model, loader, optimizer, criterion):
    model.train()
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    tp = fp = fn = 0
    for x, y in loader:
        pred = model(x).argmax(1)
        tp += ((pred == 1) & (y == 1)).sum().item()
        fp += ((pred == 1) & (y == 0)).sum().item()
        fn += ((pred == 0) & (y == 1)).sum().item()
    return 2 * tp / max(1, 2 * tp + fp + fn)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(0)
    wav = np.load(os.path.join(args.data, "snippets.npy"))
    labels = np.load(os.path.join(args.data, "labels.npy"))
    order = np.random.default_rng(0).permutation(len(labels))
    val_idx, train_idx = order[:300], order[300:1800]
    train_loader = make_loader(Snippets(wav[train_idx], labels[train_idx], True), args, True)
    val_loader = make_loader(Snippets(wav[val_idx], labels[val_idx], False), args, False)

    model = CallNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    begin = time.perf_counter()
    for epoch in range(1, args.epochs + 1):
        loss = train_one_epoch(model, train_loader, optimizer, criterion)
        f1 = validate(model, val_loader)
        print(f"Epoch {epoch:02d} | loss {loss:.4f} | val F1 {f1:.3f}", flush=True)
    print(f"trained {time.perf_counter() - begin:.2f}")


if __name__ == "__main__":
    main()
