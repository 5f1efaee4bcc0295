"""Galaxy cut-outs as single .npy objects plus an index, the layout of the survey bucket."""
import json
import os
import sys

import numpy as np

N, S = 480, 64


def main():
    root = sys.argv[1]
    os.makedirs(os.path.join(root, "cutouts"), exist_ok=True)
    rng = np.random.default_rng(21)
    yy, xx = np.mgrid[:S, :S] - S / 2
    index = []
    for i in range(N):
        kind = int(rng.integers(3))
        angle, q, r0 = rng.uniform(0, np.pi), rng.uniform(0.4, 1), rng.uniform(4, 9)
        u = xx * np.cos(angle) + yy * np.sin(angle)
        v = (-xx * np.sin(angle) + yy * np.cos(angle)) / q
        r = np.hypot(u, v) + 0.5
        img = np.exp(-r / r0)
        if kind == 1:
            img *= 1 + 0.8 * np.cos(2 * np.arctan2(v, u) - 3 * np.log(r))
        if kind == 2:
            img += 0.6 * np.exp(-((np.abs(u) - 10) ** 2 + v ** 2) / 12)
        img = img[..., None] * np.array([1.0, 0.8, 0.6]) * 200 + rng.normal(0, 6, (S, S, 3)) + 12
        key = f"cutouts/g{i:05d}.npy"
        np.save(os.path.join(root, key), np.clip(img, 0, 255).astype(np.uint8))
        index.append({"key": key, "class": kind, "split": "val" if i % 6 == 0 else "train"})
    with open(os.path.join(root, "index.json"), "w") as f:
        json.dump(index, f)


if __name__ == "__main__":
    main()
