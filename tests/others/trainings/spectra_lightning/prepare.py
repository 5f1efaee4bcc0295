"""Infrared spectra of polymer blends, 2048 channels."""
import os
import sys

import numpy as np

N, C = 4000, 2048


def main():
    root = sys.argv[1]
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(15)
    grid = np.linspace(0, 1, C)
    peaks = np.stack([np.exp(-((grid - c) / w) ** 2)
                      for c, w in zip(rng.uniform(0, 1, 40), rng.uniform(0.004, 0.03, 40))])
    mix = rng.gamma(0.4, 1.0, (N, 40))
    spectra = mix @ peaks + rng.normal(0, 0.02, (N, C))
    np.save(os.path.join(root, "spectra.npy"), spectra.astype(np.float32))


if __name__ == "__main__":
    main()
