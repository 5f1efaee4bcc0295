"""A training of equal steps, paced by the host, on the device if there is one: what is added is seen.

The host works for most of the step, so that nothing hides behind the device; the small network beside it
makes the calls that a GPU training makes. Tells the same as ``tests/lab/steps.py``.
"""

from __future__ import annotations

import time

import torch
from torch.utils.data import DataLoader

from tests.lab.steps import burn, options, tell

CALLS_S = 0.0004  # about what the network's own calls take


def main() -> None:
    """Train, then write what it cost."""
    given = options(__doc__)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batches = [torch.randn(64, 256) for _ in range(1000)]
    loader = DataLoader(batches, batch_size=None)  # type: ignore[arg-type]
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)).to(
        device
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began_s: list[float] = []
    while len(began_s) < given.steps:
        for x in loader:
            began_s.append(time.monotonic())
            optimizer.zero_grad()
            model(x.to(device, non_blocking=True)).square().mean().backward()
            optimizer.step()
            burn(max(0.0, given.step_ms / 1000 - CALLS_S))
            if len(began_s) == given.steps:
                break
    if device.type == "cuda":
        torch.cuda.synchronize()
    tell(given.out, began_s)


if __name__ == "__main__":
    main()
