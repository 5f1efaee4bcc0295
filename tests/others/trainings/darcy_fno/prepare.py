"""Permeability fields and (approximate) pressure solutions on a 64 x 64 grid."""
import os
import sys

import numpy as np

N, S = 600, 64


def main():
    root = sys.argv[1]
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(17)
    k = np.sqrt(np.fft.fftfreq(S)[:, None] ** 2 + np.fft.rfftfreq(S)[None] ** 2) * S
    smooth = 1 / (k ** 2 + 9) ** 1.5
    green = 1 / (k ** 2 + 1)
    a = np.empty((N, 1, S, S), np.float32)
    u = np.empty_like(a)
    for i in range(N):
        f = np.fft.irfft2(np.fft.rfft2(rng.normal(size=(S, S))) * smooth, s=(S, S))
        a[i, 0] = np.where(f > 0, 12.0, 3.0)
        p = np.fft.irfft2(np.fft.rfft2(1 / a[i, 0]) * green, s=(S, S))
        u[i, 0] = np.fft.irfft2(np.fft.rfft2(p * (1 + 0.1 * f / f.std())) * green, s=(S, S))
    np.savez(os.path.join(root, "darcy.npz"), a=(a - a.mean()) / a.std(), u=(u - u.mean()) / u.std())


if __name__ == "__main__":
    main()
