"""Synthetic purchase log of the web shop: (user, item, bought) rows."""
import os
import sys

import numpy as np

USERS, ITEMS, ROWS = 240_000, 160_000, 900_000


def main():
    root = sys.argv[1]
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(4)
    users = rng.integers(0, USERS, ROWS)
    items = np.minimum((rng.pareto(1.1, ROWS) * 300).astype(np.int64), ITEMS - 1)
    bought = ((users % 7 == items % 7) | (rng.random(ROWS) < 0.15)).astype(np.int64)
    np.save(os.path.join(root, "log.npy"), np.stack([users, items, bought], 1))


if __name__ == "__main__":
    main()
