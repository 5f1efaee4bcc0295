"""Protein chains with a solubility label; written sorted by length, as the clustering tool does."""
import os
import sys

import numpy as np

N = 1536


def main():
    root = sys.argv[1]
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(31)
    lengths = np.sort(np.clip(np.exp(rng.normal(4.2, 1.1, N)), 12, 900).astype(np.int64))
    label = rng.integers(0, 2, N)
    residues = rng.integers(1, 21, lengths.sum())
    charged = rng.random(len(residues)) < 0.12 * np.repeat(label, lengths)
    residues[charged] = 4
    np.savez(os.path.join(root, "chains.npz"), residues=residues.astype(np.uint8),
             offsets=np.concatenate([[0], np.cumsum(lengths)]), label=label)


if __name__ == "__main__":
    main()
