"""Two-lead ECG strips (synthetic) with four rhythm classes."""
import os
import sys

import numpy as np

N, LEN = 2400, 1024


def main():
    root = sys.argv[1]
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(60)
    y = rng.integers(0, 4, N)
    x = rng.normal(0, 0.05, (N, 2, LEN)).astype(np.float32)
    t = np.arange(LEN, dtype=np.float32)
    for i in range(N):
        rr, jitter = (200, 120, 160, 160)[y[i]], (4, 3, 35, 6)[y[i]]
        at = rng.uniform(0, rr)
        while at < LEN:
            beat = np.exp(-((t - at) / 5) ** 2) - 0.25 * np.exp(-((t - at - 9) / 6) ** 2)
            if y[i] != 2:
                beat += 0.15 * np.exp(-((t - at + 35) / 10) ** 2)
            if y[i] == 3:
                beat -= 0.3 * np.exp(-((t - at - 45) / 22) ** 2)
            x[i, 0] += beat
            x[i, 1] += 0.6 * beat
            at += max(60, rr + rng.normal(0, jitter))
    np.savez(os.path.join(root, "strips.npz"), x=x, y=y.astype(np.int64))


if __name__ == "__main__":
    main()
