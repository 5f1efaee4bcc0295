"""Sick: large batches are copied from pageable memory, in calls that block. Cure: pinned, not awaited."""

import torch
from clock import Clock
from stage import options, products, ready

COPYING_S = 0.010
WIDTH = 2048


def main() -> None:
    stage = options(__doc__, step_s=0.018)
    rows = int(COPYING_S * stage.speed.pageable_bytes_per_s / (4 * WIDTH)) // 256 * 256
    rows = stage.size(min(65536, max(1024, rows)), 32)
    clock = Clock(stage, batch=rows)
    loader = ready(stage, rows, stage.size(WIDTH, 16), dtype=torch.float32, pinned=stage.cured)
    model = products(stage, 0.006, dtype=stage.half, rows=rows)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for x in clock.loop(loader):
        optimizer.zero_grad()
        x = x.to(stage.device, non_blocking=stage.cured)
        loss = model(x.to(stage.half)).float().square().mean()
        loss.backward()
        optimizer.step()
    clock.close(loss)


if __name__ == "__main__":
    main()
