"""Hourly weather fields in one HDF5 file, as the archive's export script writes them."""
import os
import sys

import h5py
import numpy as np

HOURS, NY, NX = 576, 96, 96


def field(rng, drift, noise):
    ky = np.fft.fftfreq(NY)[:, None]
    kx = np.fft.rfftfreq(NX)[None, :]
    k = np.sqrt(kx ** 2 + ky ** 2)
    spec = (rng.normal(size=k.shape) + 1j * rng.normal(size=k.shape)) / (k + 0.02) ** 2
    spec[0, 0] = 0
    out = np.empty((HOURS, NY, NX), np.float32)
    for t in range(HOURS):
        shift = np.exp(-2j * np.pi * (kx * drift[0] + ky * drift[1]) * t)
        f = np.fft.irfft2(spec * shift, s=(NY, NX))
        out[t] = f / f.std() + noise * rng.normal(size=(NY, NX))
    return np.round(out, 2)


def main():
    root = sys.argv[1]
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(5)
    with h5py.File(os.path.join(root, "era_basin.h5"), "w") as f:
        for name, drift, noise in (("t2m", (0.31, 0.12), 0.05), ("precip", (0.55, -0.2), 0.1),
                                   ("swvl1", (0.05, 0.03), 0.02)):
            f.create_dataset(name, data=field(rng, drift, noise), chunks=(72, 16, 16),
                             compression="gzip", compression_opts=4, shuffle=True)


if __name__ == "__main__":
    main()
