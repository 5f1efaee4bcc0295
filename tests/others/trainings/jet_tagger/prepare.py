"""Toy collision events with ragged track and calorimeter collections (flat arrays + offsets)."""
import os
import sys

import numpy as np

EVENTS = 12000


def main():
    root = sys.argv[1]
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(77)
    label = rng.integers(0, 2, EVENTS)
    n_trk = rng.poisson(10 + 4 * label) + 1
    n_cal = rng.poisson(18, EVENTS) + 1
    out = {"label": label.astype(np.int64),
           "met": rng.normal(0, 20, (EVENTS, 2)).astype(np.float32),
           "trk_off": np.concatenate([[0], np.cumsum(n_trk)]),
           "cal_off": np.concatenate([[0], np.cumsum(n_cal)])}
    lt = np.repeat(label, n_trk)
    for k in ("pt", "eta", "phi", "charge", "d0", "z0"):
        v = rng.normal(0, 1, len(lt)) * (1 + 0.3 * lt * (k in ("d0", "z0")))
        out["trk_" + k] = v.astype(np.float32)
    for k in ("energy", "eta", "phi", "emfrac"):
        out["cal_" + k] = rng.normal(0, 1, int(n_cal.sum())).astype(np.float32)
    np.savez(os.path.join(root, "events.npz"), **out)


if __name__ == "__main__":
    main()
