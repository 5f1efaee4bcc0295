"""Healthy: large products in 16 bits fill the device, and nothing else takes time worth naming."""

import torch
from clock import Clock
from stage import options, products, ready


def main() -> None:
    stage = options(__doc__, step_s=0.014)
    clock = Clock(stage, batch=256)
    loader = ready(stage, stage.size(256, 8), stage.size(4096, 16), dtype=stage.half)
    model = products(stage, 0.014, dtype=stage.half, width=4096)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    for x in clock.loop(loader):
        optimizer.zero_grad()
        loss = model(x.to(stage.device, non_blocking=True)).float().square().mean()
        loss.backward()
        optimizer.step()
    clock.close(loss)


if __name__ == "__main__":
    main()
