"""``python -m tests.bench.within --step-ms 0.3``: what hooks add to a step, with and without them in turn.

Both are one process, in which many blocks of steps are compared: that tells a microsecond, where runs of
their own tell five. The supervisor, its samples and its windows are not in it.
"""

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median

from bottleneck_doctor.agent import arm, wire

WARMUP_STEPS = 50  # of a block
STEPS = 1000
TAIL = 0.98  # of a block's steps are averaged: what the machine does meanwhile is not in it


def main(argv: Sequence[str] | None = None) -> int:
    """Print what a step takes, and what the hooks add to the median and to the mean."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.within", description=__doc__)
    parser.add_argument("--step-ms", type=float, default=0.3)
    parser.add_argument("--blocks", type=int, default=40, help="of each kind")
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="bdoc-bench-") as folder:
        Path(folder, "control").write_bytes(bytes(wire.CONTROL_BYTES))
        arm(folder)
        blocks = compare(given.step_ms / 1000, given.blocks)
    for name, of in (("median", median), ("mean", _mean)):
        plain, hooked = ([of(steps) * 1e6 for steps in blocks[kind]] for kind in ("plain", "hooked"))
        added = median(ours - without for ours, without in zip(hooked, plain, strict=True))
        ratio = 1 + added / median(plain)
        print(f"{name:8}{median(plain):10.1f} µs a step, added {added:5.2f} µs, ×{ratio:.4f}")
    return 0


def compare(step_s: float, blocks: int) -> dict[str, list[list[float]]]:
    """Step times in seconds by kind and block."""
    import torch
    import torch.utils.data.dataloader as loading

    from bottleneck_doctor.agent.training import rest
    from tests.lab.steps import burn

    torch.set_num_threads(1)
    data = [(torch.randn(8, 16), torch.zeros(8, 1)) for _ in range(STEPS + WARMUP_STEPS)]
    loader = loading.DataLoader(data, batch_size=None)
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    hooked = loading._BaseDataLoaderIter.__next__
    found: dict[str, list[list[float]]] = {"hooked": [], "plain": []}
    for block in range(2 * blocks + 2):
        kind = "hooked" if block % 4 in (0, 3) else "plain"
        loading._BaseDataLoaderIter.__next__ = hooked if kind == "hooked" else hooked._bdoc_original
        if kind == "plain":
            rest()
        at: list[float] = []
        for x, y in loader:
            at.append(time.perf_counter())
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            burn(step_s)
        steps = [late - early for early, late in itertools.pairwise(at)][WARMUP_STEPS:]
        if block >= 2:  # the first two settle how often steps are looked at
            found[kind].append(steps)
    return found


def _mean(steps: list[float]) -> float:
    return fmean(sorted(steps)[: int(TAIL * len(steps))])


if __name__ == "__main__":
    sys.exit(main())
