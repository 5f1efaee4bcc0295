"""Keyword spotting on short wav clips.

The clips are cut, mixed with noise and turned into log-mel pictures by a pool of
helper processes; the main process trains a small CNN on what they return.

    python train.py --data DIR --prepare
    python train.py --data DIR
"""
import collections
import multiprocessing as mp
import os
import random
import sys
import time
import wave

import numpy as np
import torch
import torch.nn as nn

DIR = sys.argv[sys.argv.index("--data") + 1]
CLIPS = 900
STEPS = int(os.environ.get("STEPS", 80))
PROCS = int(os.environ.get("PROCS", 8))
HELPER_THREADS = int(os.environ.get("HELPER_THREADS", "0"))
TRAIN_THREADS = int(os.environ.get("TRAIN_THREADS", "0"))
BATCH = 32
RATE, SECONDS, HOP, MELS = 16000, 2, 96, 64
WINDOWS = (400, 800, 1600)      # short, middle and long view, one channel each
WORDS = 12


def prepare():
    os.makedirs(DIR, exist_ok=True)
    rng = np.random.default_rng(5)
    t = np.arange(int(RATE * 2.4)) / RATE
    for i in range(CLIPS):
        word = i % WORDS
        f0 = 140 + 60 * word
        sig = sum(np.sin(2 * np.pi * f0 * k * t + rng.uniform(0, 6)) / k for k in range(1, 5))
        sig *= np.exp(-((t - 1.2) / 0.5) ** 2)
        sig += 0.15 * rng.standard_normal(len(t))
        pcm = np.clip(sig * 6000, -32000, 32000).astype("<i2")
        with wave.open(f"{DIR}/{word:02d}_{i:05d}.wav", "wb") as f:
            f.setnchannels(1)
            f.setsampwidth(2)
            f.setframerate(RATE)
            f.writeframes(pcm.tobytes())


def mel_bank(nfft):
    def mel(f):
        return 2595 * np.log10(1 + f / 700)
    pts = np.linspace(mel(40), mel(RATE / 2), MELS + 2)
    hz = 700 * (10 ** (pts / 2595) - 1)
    bins = np.linspace(0, RATE / 2, nfft // 2 + 1)
    fb = np.zeros((MELS, len(bins)), dtype=np.float32)
    for m in range(MELS):
        up = (bins - hz[m]) / (hz[m + 1] - hz[m])
        down = (hz[m + 2] - bins) / (hz[m + 2] - hz[m + 1])
        fb[m] = np.maximum(0, np.minimum(up, down))
    return torch.from_numpy(fb)


_views = None


def start_helper():
    global _views
    if HELPER_THREADS:
        torch.set_num_threads(HELPER_THREADS)
    _views = [(n, torch.hann_window(n), mel_bank(n)) for n in WINDOWS]


def read_wav(path):
    with wave.open(path, "rb") as f:
        return np.frombuffer(f.readframes(f.getnframes()), dtype="<i2").astype(np.float32) / 32768


def make_batch(job):
    paths, seed = job
    rng = random.Random(seed)
    n = RATE * SECONDS
    clips = []
    for p in paths:
        x = read_wav(p)
        start = rng.randint(0, len(x) - n)
        clips.append(x[start:start + n])
    x = torch.from_numpy(np.stack(clips))
    gen = torch.Generator().manual_seed(seed)
    x = x + 0.02 * torch.randn(x.shape, generator=gen)
    x = x - x.mean(1, keepdim=True)
    x = torch.cat([x[:, :1], x[:, 1:] - 0.97 * x[:, :-1]], 1)
    channels = []
    for nfft, window, bank in _views:
        spec = torch.stft(x, nfft, HOP, window=window, return_complex=True).abs().pow(2)
        channels.append(torch.log(torch.matmul(bank, spec) + 1e-6))
    feats = torch.stack(channels, 1)
    feats = (feats - feats.mean((2, 3), keepdim=True)) / (feats.std((2, 3), keepdim=True) + 1e-5)
    width = rng.randint(4, 24)
    at = rng.randint(0, feats.shape[3] - width)
    feats[..., at:at + width] = 0
    labels = np.array([int(os.path.basename(p)[:2]) for p in paths])
    return feats.numpy(), labels


def jobs(paths, steps):
    rng = random.Random(0)
    for s in range(steps):
        yield rng.sample(paths, BATCH), s


def feed(pool, paths, steps):
    """Batches in order, with a bounded number of jobs under way."""
    waiting = collections.deque()
    for job in jobs(paths, steps):
        waiting.append(pool.apply_async(make_batch, (job,)))
        if len(waiting) > PROCS:
            yield waiting.popleft().get()
    while waiting:
        yield waiting.popleft().get()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layers, c = [], len(WINDOWS)
        for o in (8, 16, 24):
            layers += [nn.Conv2d(c, o, 3, stride=2, padding=1), nn.BatchNorm2d(o), nn.ReLU()]
            c = o
        self.conv = nn.Sequential(*layers)
        self.fc = nn.Linear(c * (MELS // 8), WORDS)

    def forward(self, x):
        return self.fc(self.conv(x).mean(3).flatten(1))


def main():
    if TRAIN_THREADS:
        torch.set_num_threads(TRAIN_THREADS)
    paths = sorted(os.path.join(DIR, f) for f in os.listdir(DIR) if f.endswith(".wav"))
    ctx = mp.get_context("forkserver")
    ctx.set_forkserver_preload(["torch", "numpy"])
    torch.manual_seed(0)
    net = Net()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    loss_fn = nn.CrossEntropyLoss()
    times, waits = [], []
    with ctx.Pool(PROCS, initializer=start_helper) as pool:
        stream = feed(pool, paths, STEPS)
        first = time.monotonic()
        for step in range(STEPS):
            feats, labels = next(stream)
            out = net(torch.from_numpy(feats))
            loss = loss_fn(out, torch.from_numpy(labels))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            if step % 20 == 0:
                print("step", step, "loss", round(float(loss), 4), flush=True)
    print(f"trained {time.monotonic() - first:.2f}")


if __name__ == "__main__":
    if "--prepare" in sys.argv:
        prepare()
    else:
        main()
