"""Sick: every step gives all kept memory back to the driver and asks for it anew. Cure: no empty_cache."""

import torch
from clock import Clock
from stage import options, products, ready


def main() -> None:
    stage = options(__doc__, step_s=0.018)
    clock = Clock(stage, batch=256)
    loader = ready(stage, stage.size(256, 8), stage.size(2048, 16), dtype=stage.half)
    model = products(stage, 0.008, dtype=stage.half)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for x in clock.loop(loader):
        optimizer.zero_grad()
        loss = model(x.to(stage.device, non_blocking=True)).float().square().mean()
        loss.backward()
        optimizer.step()
        if not stage.cured:
            torch.cuda.empty_cache()
    clock.close(loss)


if __name__ == "__main__":
    main()
