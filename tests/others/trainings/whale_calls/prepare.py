"""Hydrophone snippets (1 s at 4 kHz) with or without an up-sweep call."""
import os
import sys

import numpy as np

N, LEN, RATE = 3000, 4096, 4000


def main():
    root = sys.argv[1]
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(8)
    t = np.arange(LEN) / RATE
    wav = rng.normal(0, 0.2, (N, LEN)).astype(np.float32)
    y = rng.integers(0, 2, N)
    for i in np.flatnonzero(y):
        f0, f1, at = rng.uniform(80, 160), rng.uniform(200, 420), rng.uniform(0.3, 0.7)
        sweep = np.sin(2 * np.pi * (f0 * t + (f1 - f0) * t * t / 2))
        wav[i] += (0.35 * sweep * np.exp(-((t - at) / 0.15) ** 2)).astype(np.float32)
    np.save(os.path.join(root, "snippets.npy"), (wav * 12000).clip(-32767, 32767).astype(np.int16))
    np.save(os.path.join(root, "labels.npy"), y.astype(np.int64))


if __name__ == "__main__":
    main()
