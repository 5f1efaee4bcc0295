"""Support tickets, already tokenised (ids), five queues."""
import os
import sys

import numpy as np

TRAIN, VAL, LEN, VOCAB = 3200, 1800, 64, 4000


def main():
    root = sys.argv[1]
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(99)
    for split, n in (("train", TRAIN), ("val", VAL)):
        y = rng.integers(0, 5, n)
        ids = rng.integers(10, VOCAB, (n, LEN))
        topical = rng.random((n, LEN)) < 0.2
        ids = np.where(topical, 10 + y[:, None] * 60 + rng.integers(0, 60, (n, LEN)), ids)
        lengths = rng.integers(30, LEN + 1, n)
        mask = np.arange(LEN)[None] < lengths[:, None]
        ids[:, 0] = 2
        np.savez(os.path.join(root, split + ".npz"), input_ids=np.where(mask, ids, 0).astype(np.int64),
                 attention_mask=mask.astype(np.int64), labels=y.astype(np.int64))


if __name__ == "__main__":
    main()
