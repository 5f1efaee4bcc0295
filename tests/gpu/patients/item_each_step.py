"""Sick: the loss is read in every step, and 4 ms of Python come after it. Cure: it is read every 50 steps."""

import torch
from clock import Clock
from stage import burn, options, products, ready


def main() -> None:
    stage = options(__doc__, step_s=0.012)
    clock = Clock(stage, batch=256)
    loader = ready(stage, stage.size(256, 8), stage.size(2048, 16), dtype=stage.half)
    model = products(stage, 0.007, dtype=stage.half)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    running = torch.zeros((), device=stage.device)
    history = []
    for step, x in enumerate(clock.loop(loader)):
        optimizer.zero_grad()
        loss = model(x.to(stage.device, non_blocking=True)).float().square().mean()
        loss.backward()
        optimizer.step()
        running += loss.detach()
        if not stage.cured or step % 50 == 49:
            history.append(running.item())
        burn(0.004)
    clock.close(loss)


if __name__ == "__main__":
    main()
