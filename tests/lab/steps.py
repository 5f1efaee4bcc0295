"""A training of equal steps, paced by the host, that tells how long they took, and what the run used.

It runs on the device if there is one; the host works for most of a step, so that nothing hides behind that.
"""

import argparse
import itertools
import json
import resource
import statistics
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader

WARMUP_STEPS = 50


def burn(cpu_s: float) -> None:
    """Fixed work on the thread's own clock: what is added around it is seen, not swallowed by a wait."""
    until = time.thread_time() + cpu_s
    while time.thread_time() < until:
        pass


def main() -> None:
    """Train, then write what it cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step-ms", type=float, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader([(torch.randn(8, 16), torch.zeros(8, 1)) for _ in range(1000)], batch_size=None)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(16, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began_s: list[float] = []
    while len(began_s) < given.steps:
        for x, y in loader:
            began_s.append(time.monotonic())
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
            burn(given.step_ms / 1000)
            if len(began_s) == given.steps:
                break
    if device.type == "cuda":
        torch.cuda.synchronize()
    step_s = [b - a for a, b in itertools.pairwise(began_s)][WARMUP_STEPS:]
    cost = {
        "step_s": statistics.median(step_s),
        "mean_step_s": statistics.fmean(step_s),
        "first_step_at_s": began_s[0],
        "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "cpu_s": time.process_time(),
    }
    given.out.write_text(json.dumps(cost))


if __name__ == "__main__":
    main()
